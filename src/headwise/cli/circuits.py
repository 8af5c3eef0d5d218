"""headwise circuits: what every head can do by its weights."""

from __future__ import annotations

from pathlib import Path

import click

_MODEL_HELP = "A known name, a hub id, a folder or a .gguf file."


@click.command()
@click.option("-m", "--model", default="smollm2", show_default=True, help=_MODEL_HELP)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="ID",
    help="What composes with this head, for instance 18.6; repeatable.",
)
@click.option("--text", help="The text to run the model on while its weights are found. [a few]")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write the results: .nc or .json (everything), .csv or .parquet (one row per head).",
)
@click.option("--device", help="Where to run, for instance cpu, cuda or mps.")
@click.option("--dtype", help="float32, bfloat16 or float16.")
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
    if out is not None:
        from headwise.files import check_writable
        from headwise.see.profile.files import check_kind

        check_kind(out)
        check_writable(out, "the table")
    from headwise.cli.weighing import show_circuits

    show_circuits(model, heads, text, out, device, dtype)
