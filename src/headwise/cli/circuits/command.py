"""headwise circuits: what every head can do by its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import check_id, check_out, device_options, model_option, out_option


@dataclass(frozen=True)
class CircuitsRequest:
    """What was asked for on the command line."""

    model: str
    heads: tuple[str, ...]
    text: str | None
    out: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="What every head can do by its weights: copy, and read other heads.")
@model_option
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="ID",
    help="What composes with this head, for instance 18.6; repeatable.",
)
@click.option("--text", help="The text to run the model on while its weights are found. [a few]")
@out_option("Write the results: .nc or .json (everything), .csv or .parquet (one row per head).")
@device_options
def circuits(
    model: str,
    heads: tuple[str, ...],
    text: str | None,
    out: Path | None,
    device: str | None,
    dtype: str | None,
) -> None:
    """Score every head by its weights alone: whether it copies, and which heads read what it writes.

    \b
    headwise circuits
    headwise circuits --head 18.6
    headwise circuits --model gpt2 -o circuits.csv
    """
    for head in heads:
        check_id(head, parts=2, example="18.6")
    from headwise.see.profile.files import KINDS

    check_out(out, KINDS, "the circuits")
    from headwise.cli.circuits.running import run

    run(CircuitsRequest(model, heads, text, out, device, dtype))
