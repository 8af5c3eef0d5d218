"""headwise prune: heads cut out for good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headwise.cli.cutting import (
    Reading,
    check_saved,
    check_texts,
    files_option,
    folder_option,
    heads_of,
    json_option,
    reading_options,
)
from headwise.cli.options import (
    check_json,
    check_out,
    checked_pictures,
    device_options,
    picture_options,
)
from headwise.cli.rank.command import METHODS

_UNITS = ("head", "group", "layer")
_JOINT = "joint"
_BUDGETS = ("heads", "parameters", "cache", "time")


@dataclass(frozen=True)
class PruneRequest:
    """What was asked for on the command line; `settings` are of `hw.prune`, those that were given."""

    model: str
    heads: list[str] | None
    scores: Path | None
    files: tuple[Path, ...]
    held_out: tuple[Path, ...]
    keep: float | None
    unit: str
    settings: dict[str, Any]
    curve: bool
    draws: int
    seed: int
    out: Path | None
    reading: Reading
    json: Path | None
    pictures: tuple[Path, ...]
    device: str | None
    dtype: str | None


@click.command(short_help="Cut heads out for good, and save what is left.")
@click.argument("model")
@folder_option("Save the model in this folder.")
@click.option(
    "--heads", "heads", multiple=True, metavar="IDS",
    help="Cut these: 18.6, 17.3-5, 20.* or @file; repeatable.",
)  # fmt: skip
@click.option(
    "--scores", type=click.Path(path_type=Path), metavar="FILE",
    help="Cut by this ranking, a .nc of headwise rank.",
)  # fmt: skip
@files_option("--texts", "Rank, fold and refit on these texts; repeatable.", "files")
@click.option(
    "--keep", type=float, metavar="SHARE",
    help="How much of the budget stays, above 0 to 1; with --texts or --scores.",
)  # fmt: skip
@click.option(
    "--unit", default="head", show_default=True, type=click.Choice(_UNITS),
    help="What is cut whole: a query head, a KV head with its query heads, or all heads of a layer.",
)  # fmt: skip
@click.option("--budget", type=click.Choice(_BUDGETS), help="What --keep is a share of. [heads]")
@click.option(
    "--method", type=click.Choice((_JOINT, *METHODS)), metavar="NAME",
    help="How heads are ranked on --texts: joint, by what they cost together, or as headwise rank. [joint]",
)  # fmt: skip
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    help="Rank, cut some, rank again, so often. [1]",
)
@click.option(
    "--fold", type=click.Choice(("mean", "zero")),
    help="What stands in for a cut head, folded into the bias. [mean with --texts, else zero]",
)  # fmt: skip
@click.option(
    "--refit/--no-refit", default=None, help="Refit W_O on --texts towards the uncut model."
)
@files_option("--held-out", "Measure the loss on these texts; repeatable. [those of --texts]")
@click.option(
    "--curve", is_flag=True,
    help="Measure at several shares from all heads to --keep, beside one shot by gates and random heads.",
)  # fmt: skip
@click.option(
    "--draws", default=5, show_default=True, type=click.IntRange(1), metavar="N",
    help="With --curve: of random heads.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of the draws.")
@picture_options("what was cut (with --curve, loss against heads removed)")
@json_option
@reading_options
@device_options
def prune(
    model: str,
    out: Path | None,
    heads: tuple[str, ...],
    scores: Path | None,
    files: tuple[Path, ...],
    keep: float | None,
    unit: str,
    budget: str | None,
    method: str | None,
    steps: int | None,
    fold: str | None,
    refit: bool | None,
    held_out: tuple[Path, ...],
    curve: bool,
    draws: int,
    seed: int,
    png: Path | None,
    svg: Path | None,
    json_: Path | None,
    reading: Reading,
    device: str | None,
    dtype: str | None,
) -> int:
    """Cut heads out of MODEL: smaller matrices, the same results as with these heads at zero (or at their mean).

    Heads are named (--heads), or chosen by a ranking (--scores), or ranked here on texts (--texts), down to --keep.
    A KV head goes when no query head reads it any more. What is left keeps its ids.

    Ctrl-C while heads are ranked in steps ends the cut after the last whole step, and keeps it.

    \b
    headwise prune smollm2 --heads 18.6 --heads '3.*' -o small/
    headwise prune smollm2 --texts a.conllu --held-out b.conllu --blocks 256 --keep 0.8 --refit -o small/
    headwise prune smollm2 --scores scores.nc --keep 0.5 --unit group --budget cache --held-out other.conllu
    headwise prune smollm2 --texts a.txt --held-out b.txt --keep 0.5 --curve --svg curve.svg
    """
    _check_ways(heads, scores, files, keep)
    if curve and (heads or not (held_out or files)):
        raise click.UsageError(
            "--curve goes with --keep and with texts: --texts, or --scores and --held-out"
        )
    pictures = checked_pictures(png, svg)
    check_json(json_)
    check_saved(out, model)
    if json_ is None:
        check_out(None, (), "the table")
    check_texts(reading, files, held_out)
    named = heads_of(heads) or None
    given = {"budget": budget, "method": method, "steps": steps, "fold": fold, "refit": refit}
    from headwise.cli.prune.running import run

    return run(
        PruneRequest(
            model=model,
            heads=named,
            scores=scores,
            files=files,
            held_out=held_out,
            keep=keep,
            unit=unit,
            settings={name: value for name, value in given.items() if value is not None},
            curve=curve,
            draws=draws,
            seed=seed,
            out=out,
            reading=reading,
            json=json_,
            pictures=pictures,
            device=device,
            dtype=dtype,
        )
    )


def _check_ways(
    heads: tuple[str, ...], scores: Path | None, files: tuple[Path, ...], keep: float | None
) -> None:
    """Refuse what does not say which heads go, or says it twice."""
    if heads and (scores is not None or keep is not None):
        raise click.UsageError(
            "--heads names what goes; --scores and --keep choose it: give one of both"
        )
    if not heads and scores is None and not files:
        raise click.UsageError(
            "say which heads go: --heads IDS, or --keep with --texts or --scores"
        )
    if not heads and keep is None:
        raise click.UsageError("say how much stays, for instance --keep 0.8")
    if keep is not None and not 0 < keep <= 1:
        raise click.UsageError(f"--keep is a share above 0 and up to 1, came {keep:g}")
