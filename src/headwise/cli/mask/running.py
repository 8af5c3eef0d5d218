"""What `headwise mask` does once its arguments are read."""

from __future__ import annotations

from itertools import cycle, islice

from rich.console import Console

from headwise.cli.mask.command import MaskRequest
from headwise.cli.printing import print_out, say
from headwise.core import masks
from headwise.show.terminal_reach import reach_map

__all__ = ["run"]


def run(request: MaskRequest) -> None:
    """Show and draw the reach.

    Raises:
        MaskError: a mask that cannot be read, or that does not fit the length.
    """
    read = [masks.read(text) for text in request.masks]
    layers = request.layers or len(read)
    found = masks.reach(list(islice(cycle(read), layers)), length=request.length)
    words = ", then ".join(request.masks)

    def show(console: Console, colour: bool) -> None:
        console.print(reach_map(found, title=words, width=console.width, colour=colour))

    print_out(show)
    for path in request.pictures:
        from headwise.show.pictures import draw_reach, save

        save(draw_reach(found, caption=words), path)
        say(f"wrote {path}")
