"""Files of text as bytes and lines, unpacked where they are packed, each fault in one line with its file and place.

Nothing here imports torch.
"""

from __future__ import annotations

import codecs
import gzip
import json
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from headwise.names import TextError

__all__ = [
    "FIRST",
    "TEXT_COMMENT",
    "check_input",
    "check_start",
    "decoded",
    "ending",
    "kind",
    "lines",
    "name_of",
    "opened",
    "parsed",
    "readable",
    "said",
    "whole",
]

FIRST = 1 << 16
"""How many bytes tell, before anything runs, whether a file is text."""

TEXT_COMMENT = "# text = "
"""What the line with a sentence's text begins with in CoNLL-U."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, which marks the order of its bytes."""

_UNPACKING = (gzip.BadGzipFile, EOFError, zlib.error)


def kind(path: Path) -> str:
    """Whether the path is a "file", or something read once ("pipe").

    Raises:
        TextError: it is missing or a folder.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise TextError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None
    if stat.S_ISDIR(mode):
        raise TextError(f"{path} is a folder; give its files, as in {path}/*.txt")
    return "file" if stat.S_ISREG(mode) else "pipe"


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """The file's bytes, unpacked; the standard input stays open."""
    if str(path) == "-":
        check_input()
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    kind(path)
    try:
        file = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield cast(BufferedIOBase, file)


def check_input() -> None:
    """Refuse a standard input that is closed."""
    if sys.stdin is None:
        raise TextError("the standard input is closed; give a file of texts")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """A fault while reading, in one line."""
    try:
        yield
    except _UNPACKING as error:
        raise TextError(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise TextError(f"{name_of(path)} cannot be read: {error.strerror}") from None


def check_start(path: Path, data: bytes) -> None:
    """Refuse a file whose first bytes are no text."""
    if data.startswith(_UTF16):
        raise _utf16(path)
    _check_nul(path, data)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.end < len(data) or len(data) < FIRST:  # else a character cut at the end
            raise _not_utf8(path, error.start, data[error.start]) from None


def lines(path: Path, file: BufferedIOBase) -> Iterator[tuple[int, str]]:
    """Each line with its number, without its end."""
    at = 0
    with readable(path):
        for number, line in enumerate(file, 1):
            yield number, decoded(path, line, number, at).rstrip("\r\n")
            at += len(line)


def decoded(path: Path, data: bytes, number: int | None = None, at: int = 0) -> str:
    """Bytes of a file as text, of its line `number` from byte `at` on; what is not UTF-8 is named by its byte."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if at == 0 and data.startswith(_UTF16):
            raise _utf16(path) from None
        raise _not_utf8(path, at + error.start, data[error.start], number) from None
    _check_nul(path, data, at)
    return text if at else text.removeprefix("\ufeff")


def _check_nul(path: Path, data: bytes, at: int = 0) -> None:
    """Refuse a byte of 0, which no text holds, wherever it stands."""
    nul = data.find(b"\0")
    if nul >= 0:
        raise TextError(
            f"{name_of(path)} is not text (byte {at + nul} is 0); give text files in UTF-8"
        )


def _utf16(path: Path) -> TextError:
    return TextError(f"{name_of(path)} begins like UTF-16; convert it to UTF-8 first")


def _not_utf8(path: Path, at: int, byte: int, line: int | None = None) -> TextError:
    where = name_of(path) if line is None else f"{name_of(path)}, line {line},"
    return TextError(f"{where} is not UTF-8 text (byte {at} is {byte:#04x}); convert it to UTF-8")


def ending(path: Path) -> str:
    """How the name ends, in small letters, but for a .gz: `.jsonl`."""
    return Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()


def name_of(path: Path) -> str:
    """What messages call the file."""
    return "the standard input" if str(path) == "-" else str(path)


def parsed(where: str, line: str) -> object:
    """A line of JSON; `where` is what a fault begins with."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise TextError(
            f"{where} cannot be read as JSON: {error.msg} (character {error.pos + 1})"
        ) from None
    except ValueError as error:  # a number of too many digits
        raise TextError(f"{where} cannot be read as JSON: {error}") from None
    except RecursionError:
        raise TextError(f"{where} cannot be read as JSON: it is nested too deep") from None


def whole(where: str, text: str) -> str:
    """The text, refused where it holds half of a character (JSON can write that)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise TextError(f"{where} holds {half}, half of a character; write both halves") from None
    return text


def said(value: object) -> str:
    """What kind of JSON value it is."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
