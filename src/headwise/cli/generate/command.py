"""headwise generate: what a model writes after a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.cutting import json_option
from headwise.cli.given import read_file
from headwise.cli.options import check_id, check_json, device_options, model_option


@dataclass(frozen=True)
class GenerateRequest:
    """What was asked for on the command line."""

    texts: tuple[str, ...]
    model: str
    max_new_tokens: int
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    stops: tuple[str, ...]
    without: tuple[str, ...]
    json: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="What a model writes after a text.")
@click.argument("texts", nargs=-1, metavar="TEXT...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="Read a text from a file; repeatable.",
)
@model_option
@click.option(
    "-n",
    "--max-new-tokens",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="How many tokens at most.",
)
@click.option(
    "--temperature",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="T",
    help="Draw tokens, the more freely the higher; 0 takes the likeliest each time.",
)
@click.option(
    "--top-k",
    type=click.IntRange(1),
    metavar="K",
    help="Draw among the K likeliest.",
)
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="P",
    help="Draw among the likeliest that make up the probability P.",
)
@click.option("--seed", default=0, show_default=True, help="Of what is drawn.")
@click.option(
    "--stop",
    "stops",
    multiple=True,
    metavar="STR",
    help="End the text before this string; repeatable.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="ID",
    help="Write with this head turned off, for instance 18.6; repeatable.",
)
@json_option
@device_options
def generate(
    texts: tuple[str, ...],
    files: tuple[Path, ...],
    model: str,
    max_new_tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    stops: tuple[str, ...],
    without: tuple[str, ...],
    json_: Path | None,
    device: str | None,
    dtype: str | None,
) -> None:
    """Write what comes after each TEXT, while it is written; several are written at once.

    TEXT is the text itself; - reads it from the standard input. Ctrl-C ends it and keeps what was written.

    \b
    headwise generate "The capital of France is"
    headwise generate "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 3
    headwise generate --file story.txt --stop "The end" --without 18.6 --without 3.1
    headwise generate "One text" "Another" --model gpt2 --json -
    """
    for head in without:
        check_id(head, parts=2, example="18.6")
    for name, value in (("--top-k", top_k), ("--top-p", top_p)):
        if value is not None and temperature == 0:
            raise click.UsageError(f"{name} limits what is drawn; give a --temperature, such as 1")
    if "" in stops:
        raise click.UsageError("--stop takes at least one character")
    check_json(json_)
    given = [read_file(Path("-")) if text == "-" else text for text in texts]
    given += [read_file(file) for file in files]
    if not given:
        raise click.UsageError(
            'give a text: headwise generate "TEXT", or --file FILE, or - for stdin'
        )
    from headwise.cli.generate.running import run

    run(
        GenerateRequest(
            texts=tuple(given),
            model=model,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            stops=stops,
            without=without,
            json=json_,
            device=device,
            dtype=dtype,
        )
    )
