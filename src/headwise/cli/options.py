"""Options and checks that several commands share, so that each means the same everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from headwise.files import check_ending, check_writable
from headwise.names import OutputError
from headwise.see.texts.corpus import Corpus

__all__ = [
    "check_id",
    "check_json",
    "check_out",
    "checked_pictures",
    "corpora",
    "corpus_options",
    "device_options",
    "files_argument",
    "model_option",
    "out_option",
    "picture_options",
    "probe_option",
]

F = TypeVar("F", bound=Callable[..., Any])

_LEAST_CONTEXT = 3


def _once(context: click.Context, parameter: click.Parameter, values: tuple[Path, ...]) -> Any:
    """The value of an option that may be given once."""
    if len(values) > 1:
        raise click.BadParameter("it was given more than once; one file takes the results")
    return values[0] if values else None


def _some_context(context: click.Context, parameter: click.Parameter, value: int | None) -> Any:
    """Refuse a context in which there is nothing to look at."""
    if value is not None and value < _LEAST_CONTEXT:
        few = f"{value} tokens leave nothing to look at"
        raise click.BadParameter(f"{few}; give at least {_LEAST_CONTEXT}")
    return value


def files_argument(required: bool = True) -> Callable[[F], F]:
    """FILES..., - among them for the standard input."""
    kind = click.Path(path_type=Path, allow_dash=True)
    return click.argument("files", nargs=-1, required=required, type=kind)


model_option = click.option(
    "-m",
    "--model",
    default="smollm2",
    show_default=True,
    help="A known name, a hub id, a folder or a .gguf file.",
)
"""-m"""

probe_option = click.option(
    "--probe",
    "probes",
    multiple=True,
    metavar="NAME",
    help="Score this probe, for instance previous or induction; repeatable. [all]",
)
"""--probe"""


def out_option(help: str) -> Callable[[F], F]:
    """-o for one file, which holds the results."""
    return click.option(
        "-o",
        "--out",
        multiple=True,
        callback=_once,
        type=click.Path(path_type=Path),
        help=help,
    )


def corpus_options(command: F) -> F:
    """How files are read as texts: --lines, --field, --limit, --target, --context."""
    return _all(
        command,
        click.option(
            "--lines", is_flag=True, help="Plain text: each line is a text, not the whole file."
        ),
        click.option(
            "--field", metavar="NAME", help="JSON lines: the field that holds the text [text]."
        ),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Read at most N texts."),
        click.option(
            "--target",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="For an encoder-decoder: a file with what its decoder reads for each text.",
        ),
        click.option(
            "--context",
            type=int,
            callback=_some_context,
            metavar="N",
            help="Cut longer texts into pieces of at most N tokens. [what the model reads]",
        ),
    )


def device_options(command: F) -> F:
    """Where and how precisely the model runs: --device, --dtype."""
    return _all(
        command,
        click.option("--device", help="Where to run, for instance cpu, cuda or mps."),
        click.option("--dtype", help="float32, bfloat16 or float16."),
    )


def picture_options(what: str) -> Callable[[F], F]:
    """--png and --svg for a picture of this."""

    def of(command: F) -> F:
        return _all(
            command,
            click.option(
                "--png", type=click.Path(path_type=Path), help=f"Draw {what} into a PNG file."
            ),
            click.option(
                "--svg", type=click.Path(path_type=Path), help=f"Draw {what} into an SVG file."
            ),
        )

    return of


def corpora(
    files: tuple[Path, ...], lines: bool, field: str | None, limit: int | None, target: Path | None
) -> tuple[Corpus, Corpus | None]:
    """The texts of the files, and what a decoder reads for each; refused where they cannot be read.

    Raises:
        TextError: a file that is not there, or options that do not go with it.
    """
    corpus = Corpus(files, lines, field, limit)
    corpus.check()
    if target is None:
        return corpus, None
    targets = Corpus((target,), lines, field, limit)
    targets.check()
    return corpus, targets


def check_out(out: Path | None, endings: Iterable[str], what: str) -> None:
    """Refuse a result that cannot be written, or shown where there is no file, before a model is loaded.

    Raises:
        OutputError: another ending, a path that cannot be written, a closed standard output.
    """
    if out is not None:
        check_ending(out, endings)
        check_writable(out, what)
    elif sys.__stdout__ is None:
        raise OutputError(
            "the table cannot be written: the standard output is closed; give -o FILE"
        )


def check_json(json_: Path | None) -> None:
    """Refuse a path that cannot be written before a model is loaded.

    Raises:
        OutputError: it cannot, or the standard output is closed.
    """
    if json_ is not None and str(json_) != "-":
        check_writable(json_, "the JSON")
    elif json_ is not None and sys.__stdout__ is None:
        raise OutputError("the JSON cannot be written: the standard output is closed")


def checked_pictures(png: Path | None, svg: Path | None) -> tuple[Path, ...]:
    """The pictures asked for; one that cannot be written is refused before a model is loaded.

    Raises:
        OutputError: another ending, or a path that cannot be written.
    """
    for path, suffix in ((png, ".png"), (svg, ".svg")):
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            option = f"--{suffix[1:]}"
            raise OutputError(f"{option} cannot write {path.name!r}: its name must end in {suffix}")
        check_writable(path, "the picture")
    return tuple(path for path in (png, svg) if path is not None)


def check_id(id: str, parts: int, example: str, stream: str = "cross") -> None:
    """Refuse an id of a head (two parts) or layer (one) that cannot be one before a model is loaded.

    Raises:
        UsageError: it is none.
    """
    pieces = id.split(".")
    numbers = [piece for piece in pieces if piece.isascii() and piece.isdecimal()]
    if len(pieces) not in (parts, parts + 1) or numbers != pieces[-parts:]:
        what = "head" if parts == 2 else "layer"
        raise click.UsageError(
            f"{id!r} is no {what} id; write it as {example} or {stream}.{example}"
        )


def _all(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command
