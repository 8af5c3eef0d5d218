"""headwise regroup: fewer key/value heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import (
    Reading,
    check_saved,
    check_texts,
    files_option,
    folder_option,
    json_option,
    reading_options,
)
from headwise.cli.options import check_json, check_out, device_options

_HOW = ("aligned", "mean", "first", "random")


@dataclass(frozen=True)
class RegroupRequest:
    """What was asked for on the command line."""

    model: str
    num_kv_heads: int
    how: str
    files: tuple[Path, ...]
    held_out: tuple[Path, ...]
    seed: int
    out: Path | None
    reading: Reading
    json: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="Make multi-head attention grouped-query, or fewer KV heads of it.")
@click.argument("model")
@click.option(
    "--kv-heads",
    "num_kv_heads",
    required=True,
    type=click.IntRange(1),
    metavar="N",
    help="Of each layer; it divides the number there are. 1 = multi-query.",
)
@folder_option("Save the model in this folder.")
@click.option(
    "--how",
    default="aligned",
    show_default=True,
    type=click.Choice(_HOW),
    help="How heads are pooled: averaged in one basis, averaged as they are, the first, or one drawn.",
)
@files_option("--texts", "Weigh by what the layers read on these texts; repeatable.", "files")
@files_option("--held-out", "Measure the loss on these texts; repeatable. [those of --texts]")
@click.option("--seed", default=0, show_default=True, help="Of random.")
@json_option
@reading_options
@device_options
def regroup(
    model: str,
    num_kv_heads: int,
    out: Path | None,
    how: str,
    files: tuple[Path, ...],
    held_out: tuple[Path, ...],
    seed: int,
    json_: Path | None,
    reading: Reading,
    device: str | None,
    dtype: str | None,
) -> None:
    """Give MODEL fewer key/value heads: each in place of several, so that its cache is smaller.

    Pooled heads that are the same, but for their bases, lose nothing; others do, which `headwise heal` may mend.

    \b
    headwise regroup gpt2 --kv-heads 4 --texts corpus.txt --held-out other.txt -o gpt2-gqa/
    headwise regroup smollm2 --kv-heads 1 --how mean --held-out other.txt
    """
    check_json(json_)
    check_saved(out, model)
    if json_ is None:
        check_out(None, (), "the table")
    check_texts(reading, files, held_out)
    from headwise.cli.regroup.running import run

    run(
        RegroupRequest(
            model=model,
            num_kv_heads=num_kv_heads,
            how=how,
            files=files,
            held_out=held_out,
            seed=seed,
            out=out,
            reading=reading,
            json=json_,
            device=device,
            dtype=dtype,
        )
    )
