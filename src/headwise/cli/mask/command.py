"""headwise mask: who can influence whom after some layers of a mask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import checked_pictures, picture_options
from headwise.files import check_writable
from headwise.names import OutputError


@dataclass(frozen=True)
class Source:
    """The encoder that a decoder reads."""

    masks: tuple[str, ...]
    layers: int | None
    cross: tuple[str, ...]
    length: int | None


@dataclass(frozen=True)
class MaskRequest:
    """What was asked for on the command line."""

    masks: tuple[str, ...]
    length: int
    layers: int | None
    cached: int
    source: Source | None
    pictures: tuple[Path, ...]
    page: Path | None


_LONGEST = 4096
_LAYERS = 512


@click.command(short_help="Who can influence whom after some layers of a mask.")
@click.argument("masks", nargs=-1, required=True, metavar="MASK...")
@click.option(
    "--length", default=12, show_default=True, type=click.IntRange(1, _LONGEST), help="Positions."
)
@click.option(
    "--layers",
    type=click.IntRange(1, _LAYERS),
    metavar="N",
    help="Layers; several masks take turns. [as many as masks]",
)
@click.option(
    "--cached",
    default=0,
    type=click.IntRange(0, _LONGEST),
    metavar="N",
    help="The first N positions come out of a cache; only those after them are computed.",
)
@click.option(
    "--encoder",
    multiple=True,
    metavar="MASK",
    help="MASK... are a decoder's, this its encoder's; several take turns. [full]",
)
@click.option(
    "--cross",
    multiple=True,
    metavar="MASK",
    help="From the decoder's positions to the encoder's; several take turns. [full]",
)
@click.option(
    "--source-length",
    type=click.IntRange(1, _LONGEST),
    metavar="N",
    help="Positions of the encoder. [as --length]",
)
@click.option(
    "--encoder-layers",
    type=click.IntRange(1, _LAYERS),
    metavar="N",
    help="Layers of the encoder. [as --layers]",
)
@picture_options("it")
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    help="Write it as a page to explore (HTML), which needs no network.",
)
def mask(
    masks: tuple[str, ...],
    length: int,
    layers: int | None,
    cached: int,
    encoder: tuple[str, ...],
    cross: tuple[str, ...],
    source_length: int | None,
    encoder_layers: int | None,
    png: Path | None,
    svg: Path | None,
    page: Path | None,
) -> None:
    """Draw after how many layers of a MASK the input of one position can be in the output of another.

    A mask is written with full, causal, window(n, ahead=0), prefix(n), documents([0, 0, 1]) and
    padding(lengths=[3]), joined by & (and), | (or) and ~ (not). Several masks are those of layers in turn.

    \b
    headwise mask "causal & window(4) | prefix(2)" --length 12 --layers 3
    headwise mask "causal & window(3)" causal --layers 6 --page reach.html
    headwise mask causal --layers 2 --encoder "window(3, ahead=2)" --source-length 16
    headwise mask "causal & window(4)" --layers 3 --length 12 --cached 11
    """
    if cached >= length:
        raise click.UsageError(f"--cached {cached} leaves nothing of --length {length}")
    pictures = checked_pictures(png, svg)
    _check_page(page)
    asked = encoder or cross or source_length is not None or encoder_layers is not None
    source = Source(encoder or ("full",), encoder_layers, cross or ("full",), source_length)
    from headwise.cli.mask.running import run

    run(MaskRequest(masks, length, layers, cached, source if asked else None, pictures, page))


def _check_page(page: Path | None) -> None:
    """Refuse a page that cannot be written before anything is computed."""
    if page is None:
        return
    if page.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"--page cannot write {page.name!r}: its name must end in .html")
    check_writable(page, "the page")
