"""headwise train: a model of our blocks from text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headwise.cli.cutting import files_option
from headwise.cli.options import files_argument


@dataclass(frozen=True)
class TrainRequest:
    """What was asked for on the command line."""

    files: tuple[Path, ...]
    config: str | None
    out: Path | None
    resume: Path | None
    held_out: tuple[Path, ...]
    tokenizer: str | None
    init: str | None
    by: str
    field: str | None
    device: str | None
    shards: bool | None
    tensor_parallel: int
    changes: Mapping[str, Any]


_RECIPE: tuple[tuple[str, Any, str], ...] = (
    (
        "--objective",
        ("causal", "masked", "pairs"),
        "The next token, hidden ones, or targets of sources.",
    ),
    ("--steps", int, "Of AdamW."),
    ("--rows", int, "Of a step, over all processes."),
    ("--context", int, "Tokens of a row."),
    ("--learning-rate", float, "The highest."),
    ("--seed", int, "Of the weights, the order and dropout."),
    ("--dtype", ("auto", "float32", "bfloat16"), "Of the passes; auto = bfloat16 where it pays."),
)


def _recipe_options(command: Any) -> Any:
    """The fields of a recipe that are changed most often."""
    for name, kind, help in reversed(_RECIPE):
        choice = isinstance(kind, tuple)
        metavar = None if choice else "N" if kind is int else "X"
        of = click.Choice(kind) if choice else kind
        command = click.option(name, type=of, metavar=metavar, help=help)(command)
    return command


@click.command(short_help="Train a model on texts, so that a kill costs nothing.")
@files_argument(required=False)
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="TOML with [model], [train] and [tokenizer]; or the name of a recipe that ships with headwise.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="RUN", help="The run's folder."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with the run in a folder.",
)
@files_option("--held-out", "Look at the loss of these texts, in place of a share; repeatable.")
@click.option("--tokenizer", metavar="MODEL", help="Read with the tokenizer of a model or a file.")
@click.option("--init", metavar="MODEL", help="Start from the weights of a model of our blocks.")
@_recipe_options
@click.option(
    "--set",
    "set_",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other field of [train]; repeatable.",
)
@click.option(
    "--by",
    type=click.Choice(("file", "line", "paragraph")),
    help="Plain text: what one document is. Documents do not see each other. [file]",
)
@click.option("--field", metavar="NAME", help="JSON lines: the field that holds the text.")
@click.option("--device", help="Where to run, for instance cpu or cuda. [a GPU where there is one]")
@click.option(
    "--shards/--no-shards",
    default=None,
    help="Several processes: each holds a share of the weights alone (FSDP).",
)
@click.option(
    "--tensor-parallel",
    default=1,
    type=click.IntRange(1),
    metavar="N",
    help="Several processes: split the heads of each layer over N of them.",
)
def train(
    files: tuple[Path, ...],
    config: str | None,
    out: Path | None,
    resume: Path | None,
    held_out: tuple[Path, ...],
    tokenizer: str | None,
    init: str | None,
    set_: tuple[str, ...],
    by: str | None,
    field: str | None,
    device: str | None,
    shards: bool | None,
    tensor_parallel: int,
    **recipe: Any,
) -> int:
    """Train a model on FILES: plain text, .jsonl, or pairs (.tsv, .jsonl, .po, .mo, two files of lines).

    RUN/ holds what was asked, the log of every step, checkpoints, the curves, and in the end the model, which every
    command reads. Ctrl-C ends the run after the step that is made, and saves it. Killed at any moment, it goes on
    with --resume to the same weights. Several processes: accelerate launch -m headwise train ...

    \b
    headwise train book.txt --config small.toml -o run/
    headwise train --resume run/
    headwise look --model run/ "In the beginning"
    """
    changes = {name: value for name, value in recipe.items() if value is not None} | _set(set_)
    request = TrainRequest(
        files=files,
        config=config,
        out=out,
        resume=resume,
        held_out=held_out,
        tokenizer=tokenizer,
        init=init,
        by=by or "file",
        field=field,
        device=device,
        shards=shards,
        tensor_parallel=tensor_parallel,
        changes=changes,
    )
    _check(request, by is not None)
    from headwise.cli.train.running import run

    return run(request)


def _check(request: TrainRequest, says_by: bool) -> None:
    """Refuse options that do not go together."""
    if request.resume is not None:
        told = (
            request.files,
            request.config,
            request.out,
            request.held_out,
            request.tokenizer,
            request.init,
        )
        if (
            any(told)
            or request.changes
            or says_by
            or request.field
            or request.shards is not None
            or request.tensor_parallel > 1
        ):
            raise click.UsageError(
                "--resume goes on with a run as it was asked for; give no texts and no other option but --device"
            )
        return
    if not request.files:
        raise click.UsageError("give texts to train on, or --resume RUN")
    if request.out is None:
        raise click.UsageError("give the folder of the run: -o RUN")
    if request.config is None and request.init is None:
        raise click.UsageError(
            "give a configuration: --config FILE, or a model to start from: --init"
        )


def _set(pairs: tuple[str, ...]) -> dict[str, Any]:
    """NAME=VALUE, the value as TOML writes it, or a plain word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--set {pair!r} must be NAME=VALUE, for instance warmup=100")
        try:
            said = tomllib.loads(f"value = {value}")
        except ValueError:  # no TOML, or a number of too many digits
            said = {"value": value.strip()}
        if len(said) > 1:
            raise click.UsageError(f"--set {pair!r} says more than one value; repeat --set")
        found[name.strip()] = said["value"]
    return found
