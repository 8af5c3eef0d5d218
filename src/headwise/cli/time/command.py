"""headwise time: whether one model is faster than another, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import json_option
from headwise.cli.options import check_json, check_out, device_options

_PHASES = ("prefill", "decode", "forward")


@dataclass(frozen=True)
class TimeRequest:
    """What was asked for on the command line."""

    a: str
    b: str | None
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    phases: tuple[str, ...]
    rounds: int
    threads: int | None
    seed: int
    json: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="Whether one model is faster than another, and where.")
@click.argument("a")
@click.argument("b", required=False)
@click.option(
    "--batch",
    "batches",
    multiple=True,
    default=(1,),
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Rows at a time; repeatable.",
)
@click.option(
    "--length",
    "lengths",
    multiple=True,
    default=(128, 1024),
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Tokens of each row; repeatable.",
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    default=("prefill", "decode"),
    show_default=True,
    type=click.Choice(_PHASES),
    help="What is timed; repeatable. A model without a cache has forward alone.",
)
@click.option(
    "--rounds",
    default=9,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="How often each is measured; from 6 on the intervals are of 95 %.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="Of the CPU; with 1 what others do on the machine matters least. [as they are set]",
)
@click.option("--seed", default=0, show_default=True, help="Of the order of the runs.")
@json_option
@device_options
def time(
    a: str,
    b: str | None,
    batches: tuple[int, ...],
    lengths: tuple[int, ...],
    phases: tuple[str, ...],
    rounds: int,
    threads: int | None,
    seed: int,
    json_: Path | None,
    device: str | None,
    dtype: str | None,
) -> None:
    """Time the model A, or B against A: by batch, length and phase, and plainly where there is no gain.

    Both run in turns, in random order; a ratio is of two runs of the same round, and is told as a median with its
    95 % interval. Below 1, B is the faster one.

    \b
    headwise time smollm2 small/
    headwise time smollm2 small/ --batch 1 --batch 8 --length 512 --threads 1 --json -
    """
    check_json(json_)
    if json_ is None:
        check_out(None, (), "the table")
    from headwise.cli.time.running import run

    run(
        TimeRequest(
            a=a,
            b=b,
            batches=tuple(dict.fromkeys(batches)),
            lengths=tuple(dict.fromkeys(lengths)),
            phases=tuple(dict.fromkeys(phases)),
            rounds=rounds,
            threads=threads,
            seed=seed,
            json=json_,
            device=device,
            dtype=dtype,
        )
    )
