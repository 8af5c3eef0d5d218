"""headwise rank: which heads a model needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import Reading, heads_of, json_option, reading_options
from headwise.cli.options import (
    check_json,
    check_out,
    checked_pictures,
    device_options,
    files_argument,
    model_option,
    out_option,
    picture_options,
)
from headwise.names import OutputError

ALL = "all"
"""The name that stands for every method."""

METHODS = (
    "gate",
    "fisher",
    "taylor",
    "taylor2",
    "mean-gate",
    "mean-fisher",
    "mean-taylor",
    "mean-taylor2",
    "leave-one-out",
    "mean-ablation",
)


@dataclass(frozen=True)
class RankRequest:
    """What was asked for on the command line."""

    files: tuple[Path, ...]
    model: str
    methods: tuple[str, ...]
    per: str
    heads: list[str] | None
    top: int
    reading: Reading
    out: Path | None
    json: Path | None
    pictures: tuple[Path, ...]
    device: str | None
    dtype: str | None


@click.command(short_help="Which heads a model needs, by what its loss says.")
@files_argument()
@model_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    default=("gate",),
    show_default=True,
    type=click.Choice((*METHODS, ALL)),
    metavar="NAME",
    help=f"How: {', '.join(METHODS)}; repeatable, or all. Of several the correlations are shown, no heads.",
)
@click.option(
    "--per",
    default="row",
    show_default=True,
    type=click.Choice(("row", "token")),
    help="Take absolute values and squares of a row's gradient, or of each token's.",
)
@click.option(
    "--heads",
    "heads",
    multiple=True,
    metavar="IDS",
    help="Rank these alone, as 18.6, 17.* or @file; repeatable. [all]",
)
@click.option(
    "--top",
    default=8,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="How many of the strongest and of the weakest heads to list.",
)
@picture_options("the importance of every head")
@out_option("Write the ranking: .nc (what prune --scores reads), .csv, .json or .parquet.")
@json_option
@reading_options
@device_options
def rank(
    files: tuple[Path, ...],
    model: str,
    methods: tuple[str, ...],
    per: str,
    heads: tuple[str, ...],
    top: int,
    png: Path | None,
    svg: Path | None,
    out: Path | None,
    json_: Path | None,
    reading: Reading,
    device: str | None,
    dtype: str | None,
) -> int:
    """Rank the heads of a model by how much its loss over the texts in FILES depends on each.

    gate, fisher, taylor and taylor2 take the gradient at a gate on each head, which costs one pass forward and
    backward for all of them; mean-... set the gate between the head and its mean output. leave-one-out and
    mean-ablation run the model without each head, which is exact and takes longer.

    \b
    headwise rank en_pud.conllu --blocks 256 --method mean-fisher -o scores.nc --png heads.png
    headwise rank story.txt --method all
    headwise prune smollm2 -o small/ --scores scores.nc --keep 0.8
    """
    from headwise.see.profile.files import KINDS

    chosen = METHODS if ALL in methods else tuple(dict.fromkeys(methods))
    pictures = checked_pictures(png, svg)
    check_json(json_)
    if json_ is None:
        check_out(out, KINDS, "the ranking")
    elif out is not None:
        raise click.UsageError("-o and --json hold the same; give one of them")
    if len(chosen) > 1 and pictures:
        raise click.UsageError("a picture is of one method; give one --method")
    if len(chosen) > 1 and out is not None and out.suffix.lower() == ".nc":
        raise OutputError(
            f"{out} holds one ranking; for several methods give .csv, .json or .parquet"
        )
    reading.corpora(files)
    named = heads_of(heads) or None
    from headwise.cli.rank.running import run

    return run(
        RankRequest(
            files=files,
            model=model,
            methods=chosen,
            per=per,
            heads=named,
            top=top,
            reading=reading,
            out=out,
            json=json_,
            pictures=pictures,
            device=device,
            dtype=dtype,
        )
    )
