"""headwise heal: a short tuning after a cut."""

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
from headwise.cli.options import (
    check_json,
    check_out,
    checked_pictures,
    device_options,
    picture_options,
)


@dataclass(frozen=True)
class HealRequest:
    """What was asked for on the command line."""

    model: str
    files: tuple[Path, ...]
    held_out: tuple[Path, ...]
    control: str | None
    steps: int
    batch: int
    learning_rate: float
    parts: str
    every: int
    minutes: float | None
    seed: int
    out: Path | None
    reading: Reading
    json: Path | None
    pictures: tuple[Path, ...]
    device: str | None
    dtype: str | None


@click.command(short_help="Tune a model that was cut, beside the uncut one.")
@click.argument("model")
@files_option("--texts", "Tune on these texts; repeatable.", "files")
@files_option("--held-out", "Measure the loss on these others; repeatable.")
@click.option(
    "--control",
    metavar="MODEL",
    help="The uncut model, which is given the same tuning, so that what both gain can be told apart.",
)
@folder_option("Save the tuned model in this folder.")
@click.option("--steps", default=100, show_default=True, type=click.IntRange(1), metavar="N")
@click.option(
    "--batch", default=8, show_default=True, type=click.IntRange(1), help="Rows of a step."
)
@click.option(
    "--learning-rate", default=5e-5, show_default=True, metavar="X", help="The highest of AdamW."
)
@click.option(
    "--parts",
    default="all",
    show_default=True,
    type=click.Choice(("all", "attention")),
    help="What is tuned.",
)
@click.option(
    "--every",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Look at the held-out texts after so many steps.",
)
@click.option("--minutes", type=float, metavar="X", help="At most so many, for each model.")
@click.option("--seed", default=0, show_default=True, help="Of the order of the rows.")
@picture_options("the loss along the tuning")
@json_option
@reading_options
@device_options
def heal(
    model: str,
    files: tuple[Path, ...],
    held_out: tuple[Path, ...],
    control: str | None,
    out: Path | None,
    steps: int,
    batch: int,
    learning_rate: float,
    parts: str,
    every: int,
    minutes: float | None,
    seed: int,
    png: Path | None,
    svg: Path | None,
    json_: Path | None,
    reading: Reading,
    device: str | None,
    dtype: str | None,
) -> int:
    """Tune MODEL, a folder of headwise prune or regroup, for a few steps on --texts.

    With --held-out the best state by these texts is kept, else the last. Ctrl-C ends the tuning after the step that
    runs, and what was done is kept and saved. Several processes: accelerate launch -m headwise heal ...

    \b
    headwise heal small/ --texts train.txt --held-out other.txt --blocks 256 --control smollm2 -o healed/
    """
    if not files:
        raise click.UsageError("give texts to tune on: --texts FILE")
    if reading.target is not None:
        raise click.UsageError(
            "heal reads one text and no --target; from Python, give batches by name"
        )
    pictures = checked_pictures(png, svg)
    check_json(json_)
    check_saved(out, model)
    if json_ is None:
        check_out(None, (), "the table")
    check_texts(reading, files, held_out)
    from headwise.cli.heal.running import run

    return run(
        HealRequest(
            model=model,
            files=files,
            held_out=held_out,
            control=control,
            steps=steps,
            batch=batch,
            learning_rate=learning_rate,
            parts=parts,
            every=every,
            minutes=minutes,
            seed=seed,
            out=out,
            reading=reading,
            json=json_,
            pictures=pictures,
            device=device,
            dtype=dtype,
        )
    )
