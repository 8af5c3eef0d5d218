"""headwise ablate: what a model loses without some of its heads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import (
    Reading,
    heads_argument,
    heads_of,
    json_option,
    reading_options,
)
from headwise.cli.options import check_json, check_out, device_options, model_option

_HOW = ("zero", "mean", "resample", "uniform")
_PATH = click.Path(path_type=Path, allow_dash=True)


@dataclass(frozen=True)
class AblateRequest:
    """What was asked for on the command line."""

    heads: list[str]
    model: str
    how: str
    factor: float
    files: tuple[Path, ...]
    text: str | None
    stand_in: tuple[Path, ...]
    random: int
    seed: int
    top: int
    reading: Reading
    json: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="What a model loses without some of its heads.")
@heads_argument()
@model_option
@click.option(
    "--how",
    default="zero",
    show_default=True,
    type=click.Choice(_HOW),
    help="What stands in for a head: zero, its mean output, its output at another token, or an even look.",
)
@click.option(
    "--factor",
    default=0.0,
    show_default=True,
    metavar="X",
    help="How much of each head is left: 0 = nothing, 1 = all of it.",
)
@click.option(
    "--texts",
    "files",
    multiple=True,
    type=_PATH,
    metavar="FILE",
    help="Measure on the texts of this file; repeatable, each with a line of its own.",
)
@click.option("--text", help="What changes in the predictions within this text.")
@click.option(
    "--from",
    "stand_in",
    multiple=True,
    type=_PATH,
    metavar="FILE",
    help="Texts whose head outputs stand in, for mean and resample; repeatable. [those measured]",
)
@click.option(
    "--random",
    default=0,
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="With --texts: ablate as many other heads as well, drawn N times.",
)
@click.option("--seed", default=0, show_default=True, help="Of the draws.")
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=click.IntRange(1, 100),
    help="With --text: how many tokens, those whose prediction changes most.",
)
@json_option
@reading_options
@device_options
def ablate(
    heads: tuple[str, ...],
    model: str,
    how: str,
    factor: float,
    files: tuple[Path, ...],
    text: str | None,
    stand_in: tuple[Path, ...],
    random: int,
    seed: int,
    top: int,
    json_: Path | None,
    reading: Reading,
    device: str | None,
    dtype: str | None,
) -> int:
    """Ablate HEADS for a while, and measure what it does: to the loss over texts, or within one text.

    HEADS are ids (18.6, cross.0.2), ranges (18.*, 17.3-5, *.2) and files of them (@heads.txt). The loss is that of
    the next token, in nats; for a model that predicts none (an encoder), how far its output moves is measured
    instead. Files are read as `headwise profile` reads them.

    Ctrl-C stops after the batch that runs and shows what was measured so far.

    \b
    headwise ablate 18.6 17.3-5 --text "The animal didn't cross the street because the animal"
    headwise ablate 18.6 17.3-5 --texts story.txt --context 512 --random 20
    headwise ablate '17.*' --how mean --texts en_pud.conllu --blocks 256 --json -
    """
    if not files and text is None:
        raise click.UsageError('give something to measure on: --texts FILE, or --text "TEXT"')
    if random and not files:
        raise click.UsageError("--random draws heads to compare a loss with; it goes with --texts")
    if stand_in and how not in ("mean", "resample"):
        raise click.UsageError(f"--from is for --how mean and resample; {how} needs no texts")
    if not math.isfinite(factor):
        raise click.UsageError(
            f"--factor must be a finite number, came {factor}; 0 leaves nothing of a head"
        )
    check_json(json_)
    if json_ is None:
        check_out(None, (), "the table")
    for some in (files, stand_in):
        if some:
            reading.corpora(some)
    named = heads_of(heads)
    from headwise.cli.ablate.running import AblateRun

    request = AblateRequest(
        heads=named,
        model=model,
        how=how,
        factor=factor,
        files=files,
        text=text,
        stand_in=stand_in,
        random=random,
        seed=seed,
        top=top,
        reading=reading,
        json=json_,
        device=device,
        dtype=dtype,
    )
    return AblateRun(request).go()
