"""What `headwise mask` does once its arguments are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice

from rich.console import Console

from headwise.cli.mask.command import MaskRequest, Source
from headwise.cli.printing import print_out, say
from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.reach import Reach
from headwise.show.reach_words import ReachWords
from headwise.show.terminal_reach import reach_map

__all__ = ["run"]


def run(request: MaskRequest) -> None:
    """Show and draw the reach.

    Raises:
        MaskError: a mask that cannot be read, or that does not fit the length.
    """
    own = _turns(request.masks, request.layers or len(request.masks))
    found, words = _plain(request, own) if request.source is None else _crossed(request, own)

    def show(console: Console, colour: bool) -> None:
        console.print(reach_map(found, title=words.title, width=console.width, colour=colour))

    print_out(show)
    for path in request.pictures:
        from headwise.show.pictures import draw_reach, save

        save(draw_reach(found, caption=words.title), path)
        say(f"wrote {path}")
    if request.page is not None:
        from headwise.show.page.reach import reach_page, save_page

        save_page(reach_page(found, words), request.page)
        say(f"wrote {request.page}")


def _plain(request: MaskRequest, own: tuple[str, ...]) -> tuple[Reach, ReachWords]:
    steps = _read(own)

    def to(length: int, past: Reach | None) -> Reach:
        return masks.reach(steps, length=length, past=past)

    return _cached(request, to), ReachWords(own)


def _crossed(request: MaskRequest, own: tuple[str, ...]) -> tuple[Reach, ReachWords]:
    """Beside an encoder."""
    assert request.source is not None
    source: Source = request.source
    across = _turns(source.cross, len(own))
    encoder = _turns(source.masks, source.layers or max(len(own), len(source.masks)))
    steps, cross = _read(own), _read(across)
    memory = masks.reach(_read(encoder), length=source.length or request.length)

    def to(length: int, past: Reach | None) -> Reach:
        return masks.reach(steps, length=length, cross=cross, memory=memory, past=past)

    return _cached(request, to), ReachWords(own, across, encoder)


def _cached(request: MaskRequest, to: Callable[[int, Reach | None], Reach]) -> Reach:
    """The reach up to the whole length, behind a cache where one is asked for."""
    return to(request.length, to(request.cached, None) if request.cached else None)


def _turns(texts: Sequence[str], layers: int) -> tuple[str, ...]:
    return tuple(islice(cycle(texts), layers))


def _read(texts: Sequence[str]) -> list[Mask]:
    """Each mask read once: layers with equal ones share it."""
    made = {text: masks.read(text) for text in texts}
    return [made[text] for text in texts]
