"""headwise ledger: what a model costs, by layer and part, from its configuration alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import json_option
from headwise.cli.options import check_json, check_out, out_option

_KINDS = (".nc", ".csv", ".parquet", ".json")


@dataclass(frozen=True)
class LedgerRequest:
    """What was asked for on the command line."""

    model: str
    length: int | None
    batch: int
    target_length: int | None
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    head_dim: int | None
    dtype: str | None
    shapes: bool
    formulas: bool
    layers: bool
    json: Path | None
    out: Path | None


def _numbers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    """Whole numbers with commas between."""
    if value is None:
        return ()
    parts = [part.strip() for part in value.split(",")]
    wrong = [part for part in parts if not part.isascii() or not part.isdecimal() or int(part) < 1]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is no number of heads; write them as 1,2,4")
    return tuple(dict.fromkeys(map(int, parts)))


@click.command(short_help="What a model costs: parameters, FLOPs, cache, by layer and part.")
@click.argument("model")
@click.option("--length", type=int, metavar="N", help="Positions of each row. [512, or its most]")
@click.option("--batch", type=int, default=1, show_default=True, metavar="N", help="Rows.")
@click.option(
    "--target-length",
    type=int,
    metavar="N",
    help="Of an encoder-decoder: positions that its decoder reads. [as --length]",
)
@click.option(
    "--heads",
    callback=_numbers,
    metavar="H,H,...",
    help="Beside each other: the same model with so many heads, d_model as it is.",
)
@click.option(
    "--kv-heads",
    callback=_numbers,
    metavar="H,H,...",
    help="The same with so many KV heads. [shared as they are]",
)
@click.option("--head-dim", type=click.IntRange(1), metavar="N", help="d_k. [d_model / heads]")
@click.option("--dtype", help="float32, bfloat16 or float16. [as it is stored]")
@click.option("--shapes", is_flag=True, help="The shapes that a row passes through, measured.")
@click.option("--formulas", is_flag=True, help="Beside each count what the closed form gives.")
@click.option("--layers", is_flag=True, help="Every layer, also where they are equal.")
@json_option
@out_option("Write the table to a .csv, .parquet, .json or .nc file.")
def ledger(
    model: str,
    length: int | None,
    batch: int,
    target_length: int | None,
    heads: tuple[int, ...],
    kv_heads: tuple[int, ...],
    head_dim: int | None,
    dtype: str | None,
    shapes: bool,
    formulas: bool,
    layers: bool,
    json_: Path | None,
    out: Path | None,
) -> None:
    """Count what MODEL costs: parameters, FLOPs, cache and activations, by layer and part.

    MODEL is a known name, a folder, a config.json or a hub id; no weights are read. It is run on tensors without
    values: a multiply-add is 2 FLOPs, and all n x n scores are counted.

    \b
    headwise ledger smollm2 --length 2048
    headwise ledger smollm2 --shapes
    headwise ledger smollm2 --heads 1,9,18 --kv-heads 1
    """
    check_json(json_)
    if json_ is None or out is not None:
        check_out(out, _KINDS, "the ledger")
    varied = bool(heads or kv_heads or head_dim)
    if varied and (shapes or formulas or layers or out is not None):
        raise click.UsageError(
            "--heads, --kv-heads and --head-dim make a table of their own; leave --shapes, --formulas, --layers "
            "and -o out"
        )
    from headwise.cli.ledger.running import run

    run(
        LedgerRequest(
            model=model,
            length=length,
            batch=batch,
            target_length=target_length,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            dtype=dtype,
            shapes=shapes,
            formulas=formulas,
            layers=layers,
            json=json_,
            out=out,
        )
    )
