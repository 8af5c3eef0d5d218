"""What the commands that cut share: which heads are meant, and how files are read as rows of tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwise.cli.options import corpora, corpus_options
from headwise.files import check_folder
from headwise.names import OutputError
from headwise.see.texts.corpus import Corpus

if TYPE_CHECKING:
    from headwise.hub.load import Model
    from headwise.see.texts.given import Texts

__all__ = [
    "Reading",
    "check_saved",
    "check_texts",
    "files_option",
    "folder_option",
    "heads_argument",
    "heads_of",
    "json_option",
    "reading_options",
    "rows_of",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reading:
    """How files are read: as `headwise profile` reads them, or joined and cut into blocks."""

    lines: bool
    field: str | None
    limit: int | None
    target: Path | None
    context: int | None
    blocks: int | None

    def corpora(self, files: tuple[Path, ...]) -> tuple[Corpus, Corpus | None]:
        """The texts of the files, and what a decoder reads for each.

        Raises:
            TextError: a file that cannot be read.
            UsageError: options that do not go together.
        """
        if self.blocks is not None and (self.target or self.context):
            raise click.UsageError(
                "--blocks cuts texts by itself; leave --context and --target out"
            )
        return corpora(files, self.lines, self.field, self.limit, self.target)


def reading_options(command: F) -> F:
    """The options of a corpus and --blocks, handed on as one `reading`."""
    names = [field.name for field in fields(Reading)]

    @functools.wraps(command)
    def bundled(**given: Any) -> Any:
        reading = Reading(**{name: given.pop(name) for name in names})
        return command(reading=reading, **given)

    blocks = click.option(
        "--blocks",
        type=click.IntRange(2),
        metavar="N",
        help="Join the texts by line ends and cut them into rows of N tokens.",
    )
    return corpus_options(blocks(bundled))  # type: ignore[return-value]


def heads_argument(required: bool = True) -> Callable[[F], F]:
    """HEADS..."""
    return click.argument("heads", nargs=-1, required=required)


def heads_of(heads: tuple[str, ...]) -> list[str]:
    """The ids and ranges meant on the command line, those of files among them, which stand after @.

    Raises:
        HeadError: what is no id, or a file that cannot be read.
    """
    from headwise.cut.selecting import named

    meant = [Path(one[1:]) if one.startswith("@") else one for one in heads]
    return [id for one in meant for id in named(one)]


json_option = click.option(
    "--json",
    "json_",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write what was found as JSON; - is the standard output.",
)
"""--json"""


def rows_of(model: Model, texts: list[str], reading: Reading) -> Texts:
    """The texts as a verb takes them: as they are, or with --blocks as rows of ids of one length.

    Raises:
        TextError: fewer tokens than one block.
    """
    if reading.blocks is None:
        return texts
    from headwise.cut.losses import blocks

    return blocks(model, texts, reading.blocks)


def folder_option(help: str) -> Callable[[F], F]:
    """-o for a folder that a model is saved in."""
    return click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help=help)


def files_option(name: str, help: str, *declared: str) -> Callable[[F], F]:
    """A repeatable option for files of texts."""
    kind = click.Path(path_type=Path, allow_dash=True)
    return click.option(name, *declared, multiple=True, type=kind, metavar="FILE", help=help)


def check_texts(reading: Reading, *several: tuple[Path, ...]) -> None:
    """Refuse files that cannot be read before a model is loaded.

    Raises:
        TextError: one of them.
    """
    for files in several:
        if files:
            reading.corpora(files)


def check_saved(folder: Path | None, model: str) -> None:
    """Refuse a folder that cannot be written, or that the model is read from, before it is loaded.

    Raises:
        OutputError: it cannot, and why.
    """
    if folder is None:
        return
    if Path(model).is_dir() and Path(model).resolve() == folder.resolve():
        raise OutputError(
            f"the model cannot be written to {folder}: it is read from there; choose another path"
        )
    check_folder(folder, "the model")
