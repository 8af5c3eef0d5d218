"""headwise look: who looks at whom, in every head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headwise.cli.given import read_given
from headwise.cli.look.page_options import page_asked, page_options
from headwise.cli.options import (
    check_id,
    check_json,
    checked_pictures,
    device_options,
    model_option,
    picture_options,
)


@click.command(short_help="Who looks at whom in a sentence, in every head.")
@click.argument("text", required=False)
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Read the text from a file.",
)
@model_option
@click.option("--word", help="What this word looks at, by head, strongest first.")
@click.option(
    "--rather",
    nargs=2,
    metavar="ONE OTHER",
    help="With --word: which heads of it look at ONE rather than at OTHER, and the reverse.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="ID",
    help="Show this head, for instance 18.6; repeatable.",
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    metavar="N",
    help="Show all heads of this layer, for instance 18 or cross.0; repeatable.",
)
@click.option(
    "--ffn",
    is_flag=True,
    help="Instead of heads: the neurons that fire at each token (or --word, or in --layer), and what they add. "
    "With --html: beside the heads, in the page, with what each block adds.",
)
@click.option(
    "--words",
    "by_words",
    is_flag=True,
    help="Maps by words: to a word the sum, from a word the mean.",
)
@click.option(
    "--norms",
    is_flag=True,
    help="Maps of norm-based weights: what each token takes of each (Kobayashi et al. 2020).",
)
@click.option(
    "--renormalise",
    is_flag=True,
    help="With --word: share out what is left beside the first token.",
)
@click.option(
    "--top",
    default=3,
    show_default=True,
    type=click.IntRange(0, 50),
    help="How many of the most telling heads to show; with --ffn, of the neurons at each token.",
)
@click.option(
    "--target", help="For an encoder-decoder: what its decoder reads; else it writes by itself."
)
@picture_options("the maps")
@click.option(
    "--json",
    "json_",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write all heads as JSON; - is the standard output.",
)
@page_options
@device_options
def look(
    text: str | None,
    file: Path | None,
    model: str,
    word: str | None,
    rather: tuple[str, str] | None,
    heads: tuple[str, ...],
    layers: tuple[str, ...],
    ffn: bool,
    by_words: bool,
    norms: bool,
    renormalise: bool,
    top: int,
    target: str | None,
    png: Path | None,
    svg: Path | None,
    json_: Path | None,
    device: str | None,
    dtype: str | None,
    **of_page: Any,
) -> None:
    """Look at a TEXT: the grid of all heads, coloured by what each does most, and maps of the most telling.

    TEXT is the text itself; - reads it from the standard input.

    \b
    headwise look "The animal didn't cross the street because it was too tired"
    headwise look "..." --word it --rather animal street
    headwise look "..." --head 13.8 --head 21.6 --png maps.png
    headwise look "..." --html page.html --without 18.6 --beside "Another text"
    headwise look "..." --ffn --word it
    headwise look --file story.txt --model gpt2 --json -
    """
    if ffn and of_page["html"] is None:
        _check_ffn(heads, by_words, norms, renormalise, top, png, svg)
    if renormalise and word is None:
        raise click.UsageError("--renormalise goes with --word")
    if rather is not None and (word is None or ffn):
        raise click.UsageError("--rather goes with --word, and is of heads, not of --ffn")
    for head in heads:
        check_id(head, parts=2, example="18.6")
    for layer in layers:
        check_id(layer, parts=1, example="18")
    pictures = checked_pictures(png, svg)
    check_json(json_)
    page = page_asked(of_page, ffn, target, device, dtype)
    given = read_given(text, file, "look")
    from headwise.cli.look.neurons import show_fires
    from headwise.cli.look.running import View, show

    (show_fires if ffn and page is None else show)(
        View(
            text=given,
            model=model,
            word=word,
            rather=rather,
            heads=heads,
            layers=layers,
            by_words=by_words,
            norms=norms,
            renormalise=renormalise,
            top=top,
            target=target,
            pictures=pictures,
            json=json_,
            device=device,
            dtype=dtype,
            page=page,
        )
    )


def _check_ffn(
    heads: tuple[str, ...],
    by_words: bool,
    norms: bool,
    renormalise: bool,
    top: int,
    png: Path | None,
    svg: Path | None,
) -> None:
    """Refuse what is of heads alone."""
    given = {"--head": heads, "--words": by_words, "--norms": norms, "--renormalise": renormalise}
    given |= {"--png": png, "--svg": svg}
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{name} is of heads, and --ffn shows neurons; leave one out")
    if top < 1:
        raise click.UsageError("--ffn shows neurons at each token; give --top from 1")
