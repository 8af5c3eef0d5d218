"""headwise lab: the claims of the textbooks, run as experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headwise.cli.cutting import files_option, json_option
from headwise.cli.options import check_json

_FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True)
class LabRequest:
    """What was asked for on the command line."""

    names: tuple[str, ...]
    out: Path | None
    quick: bool
    seed: int
    texts: tuple[Path, ...]
    device: str | None
    language: Any
    compare: tuple[Path, Path] | None
    course: Path | None
    second: Path | None
    json: Path | None


@click.command(short_help="The textbooks' claims, each run as an experiment with a verdict.")
@click.argument("names", nargs=-1, metavar="[CLAIM]...")
@click.option(
    "-o",
    "--out",
    type=_FOLDER,
    metavar="FOLDER",
    help="Where runs and reports are; of --course, the Markdown file. [lab]",
)
@click.option("--quick", is_flag=True, help="Smaller, for minutes: it shows how a claim is run.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Runs of different seeds share no random number.",
)
@files_option("--text", "Train on these files, each line a paragraph. [King James Bible]")
@click.option("--device", help="Where to run, for instance cpu or cuda. [cpu]")
@click.option(
    "--lang",
    "language",
    default="en",
    show_default=True,
    type=click.Choice(("en", "zh-CN")),
    help="Of the reports and of what is shown.",
)
@click.option(
    "--compare",
    nargs=2,
    type=_FOLDER,
    metavar="ONE OTHER",
    help="Hold the runs of a folder against those of another.",
)
@click.option(
    "--course", type=_FOLDER, metavar="FOLDER", help="Make one Markdown file of a folder's lessons."
)
@click.option(
    "--second", type=_FOLDER, metavar="FOLDER", help="Of --course: say whether these runs agree."
)
@json_option
def lab(
    names: tuple[str, ...],
    out: Path | None,
    quick: bool,
    seed: int,
    text: tuple[Path, ...],
    device: str | None,
    language: str,
    compare: tuple[Path, Path] | None,
    course: Path | None,
    second: Path | None,
    json_: Path | None,
) -> int:
    """Run claims about attention, masks and FFN here: a table with intervals, a picture and a verdict.

    CLAIM is a name or a row of the list (headwise lab), or all. FOLDER/CLAIM.jsonl holds what was measured, and
    the same command goes on where it was stopped or killed. --compare ends with 1 where two folders differ.

    \b
    headwise lab
    headwise lab softmax C2 --quick
    headwise lab all --seed 1 -o second/
    headwise lab --compare lab/ second/
    headwise lab --course lab/ --second second/ -o claims.md
    """
    request = LabRequest(
        names=names,
        out=out,
        quick=quick,
        seed=seed,
        texts=text,
        device=device,
        language=language,
        compare=compare,
        course=course,
        second=second,
        json=json_,
    )
    _check(request)
    check_json(json_)
    if names:
        from headwise.cli.lab.running import run

        return run(request)
    from headwise.cli.lab.telling import tell

    return tell(request)


def _check(request: LabRequest) -> None:
    """Refuse options that do not go together."""
    if sum(map(bool, (request.names, request.compare, request.course))) > 1:
        raise click.UsageError(
            "claims, --compare and --course are three things; ask for one of them"
        )
    if request.second is not None and request.course is None:
        raise click.UsageError("--second is of --course; --compare holds two folders together")
    runs = request.quick or request.seed or request.texts or request.device
    if runs and not request.names:
        raise click.UsageError(
            "--quick, --seed, --text and --device are of a run; name claims, or all"
        )
    if request.compare is not None and request.out is not None:
        raise click.UsageError("--compare writes no folder; give --json FILE")
    if request.course is not None and (request.out is None or request.json is not None):
        raise click.UsageError("--course writes one Markdown file; give -o FILE and no --json")
