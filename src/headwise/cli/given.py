"""A text given on the command line: itself, in a file, or on the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headwise.names import TextError

__all__ = ["read_file", "read_given"]


def read_given(text: str | None, file: Path | None, command: str) -> str:
    """The text given in one of the three ways.

    Args:
        text: the text itself; - reads the standard input.
        file: holds it; - is the standard input.
        command: of which it is the argument.

    Raises:
        UsageError: both came, or neither.
        TextError: a file that cannot be read, holds no text, or is not UTF-8.
    """
    if (text is None) == (file is None):
        raise click.UsageError(
            f'give a text: headwise {command} "TEXT", or --file FILE, or - for stdin'
        )
    if file is not None:
        return read_file(file)
    assert text is not None
    return read_file(Path("-")) if text == "-" else text


def read_file(file: Path) -> str:
    """The text of a file, or of the standard input, without the line ends after it.

    Raises:
        TextError: it cannot be read, is empty, or is not UTF-8.
    """
    if str(file) == "-":
        if sys.stdin is None:
            raise TextError("the standard input is closed; give the text itself, or --file FILE")
        data, name = sys.stdin.buffer.read(), "the standard input"
    else:
        try:
            data, name = file.read_bytes(), str(file)
        except OSError as error:
            raise TextError(f"{file} cannot be read: {error.strerror}") from None
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{name} is not UTF-8 text (byte {error.start}); convert it to UTF-8 first"
        ) from None
    if not decoded.strip():
        raise TextError(f"{name} is empty; give at least one word")
    return decoded.rstrip("\n")
