"""headwise mask: who can influence whom after some layers of a mask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import checked_pictures, picture_options


@dataclass(frozen=True)
class MaskRequest:
    """What was asked for on the command line."""

    masks: tuple[str, ...]
    length: int
    layers: int | None
    pictures: tuple[Path, ...]


@click.command(short_help="Who can influence whom after some layers of a mask.")
@click.argument("masks", nargs=-1, required=True, metavar="MASK...")
@click.option(
    "--length", default=12, show_default=True, type=click.IntRange(1, 4096), help="Positions."
)
@click.option(
    "--layers",
    type=click.IntRange(1),
    metavar="N",
    help="Layers; several masks take turns. [as many as masks]",
)
@picture_options("it")
def mask(
    masks: tuple[str, ...], length: int, layers: int | None, png: Path | None, svg: Path | None
) -> None:
    """Draw after how many layers of a MASK the input of one position can be in the output of another.

    A mask is written with full, causal, window(n, ahead=0), prefix(n), documents([0, 0, 1]) and
    padding(lengths=[3]), joined by & (and), | (or) and ~ (not). Several masks are those of layers in turn.

    \b
    headwise mask "causal & window(4) | prefix(2)" --length 12 --layers 3
    headwise mask "causal & window(3)" causal --layers 6
    """
    pictures = checked_pictures(png, svg)
    from headwise.cli.mask.running import run

    run(MaskRequest(masks, length, layers, pictures))
