"""headwise audit: whether anything of a model sees what it must not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import check_json, checked_pictures, picture_options
from headwise.names import HeadwiseError

COULD_NOT = 2
"""The exit code where there is no answer, so that 1 always means a leak."""

_DIMENSIONS = (
    *("future", "padding", "documents", "rows", "memory"),
    *("cached", "chunked", "unpadded", "weights", "training"),
)
"""As in check.report, which imports torch."""

_DTYPES = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class AuditRequest:
    """What was asked for on the command line; None where nothing was."""

    target: str
    masks: tuple[str, ...]
    layers: int | None
    length: int | None
    dimensions: tuple[str, ...]
    weights: str | None
    seed: int | None
    draws: int | None
    dtype: str | None
    device: str | None
    text: str | None
    json: Path | None
    pictures: tuple[Path, ...]


@click.command(short_help="Whether any position sees what it must not.")
@click.argument("target")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="MASK",
    help="What one layer may see, as for headwise mask; repeatable, for layers in turn. [as the model says]",
)
@click.option("--layers", type=click.IntRange(1), metavar="N", help="Layers the mask reaches over.")
@click.option("--length", type=click.IntRange(2, 4096), metavar="N", help="Positions of the input.")
@click.option(
    "--dimension",
    "dimensions",
    multiple=True,
    type=click.Choice(_DIMENSIONS),
    metavar="NAME",
    help=f"Check this alone; repeatable: {', '.join(_DIMENSIONS)}. [all]",
)
@click.option(
    "--weights",
    type=click.Choice(("given", "wide", "both")),
    help="As they are, drawn anew and wide, which hides no leak, or one after the other. [given]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of all that is drawn. [0]")
@click.option(
    "--draws",
    type=click.IntRange(1, 100),
    metavar="N",
    help="How many other inputs each position is tried with. [2]",
)
@click.option("--text", help="A text to read, for a model with a tokenizer. [ids drawn]")
@picture_options("what is declared beside what was measured")
@click.option(
    "--json",
    "json_",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write all outcomes with their maps as JSON; - is the standard output.",
)
@click.option("--device", help="Where to run, for instance cpu, cuda or mps.")
@click.option(
    "--dtype", type=click.Choice(_DTYPES), help="In which to run. [float64 where the model can]"
)
def audit(
    target: str,
    masks: tuple[str, ...],
    layers: int | None,
    length: int | None,
    dimensions: tuple[str, ...],
    weights: str | None,
    seed: int | None,
    draws: int | None,
    text: str | None,
    png: Path | None,
    svg: Path | None,
    json_: Path | None,
    device: str | None,
    dtype: str | None,
) -> int:
    """Hold what influences what in TARGET against what may: future tokens, padding, other documents, other rows.

    TARGET is a known name, a hub id, a folder or a .gguf file, run as transformers runs it; or module:factory, a
    function of yours in a module of the current folder, which takes no argument and returns a module or a
    callable, or such a one and a dict of arguments of hw.audit.

    The exit code is 0 for clean, 1 for a leak or two ways to run that differ, 2 where it could not be told. Ctrl-C
    stops with 130, and shows what was found until then; that is never called clean. What a model prints goes to
    stderr.

    \b
    headwise audit smollm2
    headwise audit my_model:make --mask "causal & window(4)" --mask causal --layers 6
    headwise audit my_model:make --dimension padding --json - --png leak.png
    """
    if text is not None and length is not None:
        raise click.UsageError("--text has a length of its own; leave --length out")
    if text is not None and not text.strip():
        raise click.UsageError("--text is empty; give a text of some words")
    try:
        pictures = checked_pictures(png, svg)
        check_json(json_)
        from headwise.cli.audit.running import run

        return run(
            AuditRequest(
                *(target, masks, layers, length, dimensions, weights, seed, draws),
                *(dtype, device, text, json_, pictures),
            )
        )
    except HeadwiseError as error:
        click.echo(f"headwise: {error}", err=True)
        return COULD_NOT
