"""A corpus on disk: files of several kinds as texts, one after the other, no file held whole but a document.

Kinds, told by the name (a .gz behind it is unpacked): .jsonl and .ndjson (one text per line, as an object's
field or a plain string), .conllu (the sentences of its `# text =` comments), and anything else as plain text,
where a file is one document but for its last line end, or each line a text. `-` is the standard input, as plain
text unless a field is named. Nothing here imports torch.
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
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import cast

from headwise.names import TextError

__all__ = ["Corpus"]

_FIRST = 1 << 16
"""How many bytes tell, before anything runs, whether a file is text."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, which marks the order of its bytes."""

_FIELD = "text"
_JSON = {".jsonl", ".ndjson"}
_CONLLU = ".conllu"
_TEXT_COMMENT = "# text = "
_UNPACKING = (gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True)
class Corpus:
    """Files and how to read them.

    Attributes:
        files: paths; `-` is the standard input.
        lines: plain text: each line that holds something is a text, not the file as a whole.
        field: JSON: the field that holds the text, None = `text`. With it the standard input is JSON lines.
        limit: at most so many texts; None = all.
    """

    files: tuple[Path, ...]
    lines: bool = False
    field: str | None = None
    limit: int | None = None

    def check(self) -> None:
        """Refuse what can be told without reading it all.

        Raises:
            TextError: a file that is missing, a folder, may not be read, or does not begin as text.
        """
        for path in self.files:
            if str(path) == "-":
                _check_input()
            elif _kind(path) == "file":
                with _opened(path) as file, _readable(path):
                    _check_start(path, file.read(_FIRST))

    def texts(self) -> Iterator[str]:
        """The texts in order, read as they are asked for; those of nothing but space are left out.

        Raises:
            TextError: at a line that cannot be read, with its file and number; after the last text, where
                there was none.
        """
        found = (text for path in self.files for text in self._of(path) if text.strip())
        count = 0
        for text in found if self.limit is None else islice(found, self.limit):
            count += 1
            yield text
        if not count:
            raise TextError(f"no text in {', '.join(_name(path) for path in self.files)}")

    def count(self) -> int | None:
        """How many texts there are, where that is quick to tell: a reading of plain files; else None."""
        if any(str(path) == "-" or _kind(path) != "file" for path in self.files):
            return None
        if any(path.suffix == ".gz" for path in self.files):
            return None
        found = sum(self._count(path) for path in self.files)
        return found if self.limit is None else min(found, self.limit)

    def size(self) -> int | None:
        """How many bytes of text there are, where each file is one document whose size can be told; else None."""
        if self.lines or self.limit is not None or any(str(path) == "-" for path in self.files):
            return None
        plain = [path for path in self.files if _suffix(path) not in {*_JSON, _CONLLU}]
        if len(plain) < len(self.files) or any(path.suffix == ".gz" for path in plain):
            return None
        return sum(path.stat().st_size for path in plain if _kind(path) == "file") or None

    def _count(self, path: Path) -> int:
        suffix = _suffix(path)
        if suffix != _CONLLU and suffix not in _JSON and not self.lines:
            return 1
        start = _TEXT_COMMENT.encode() if suffix == _CONLLU else b""
        with _opened(path) as file, _readable(path):
            return sum(1 for line in file if line.startswith(start) and line.strip())

    def _of(self, path: Path) -> Iterator[str]:
        suffix = _suffix(path)
        piped_json = str(path) == "-" and self.field is not None
        with _opened(path) as file:
            if suffix in _JSON or piped_json:
                for number, line in _lines(path, file):
                    if line.strip():
                        yield self._of_json(path, number, line)
            elif suffix == _CONLLU:
                for _, line in _lines(path, file):
                    if line.startswith(_TEXT_COMMENT):
                        yield line.removeprefix(_TEXT_COMMENT).strip()
            elif self.lines:
                yield from (line for _, line in _lines(path, file))
            else:
                with _readable(path):
                    data = file.read()
                yield _decoded(path, data).removesuffix("\n").removesuffix("\r")

    def _of_json(self, path: Path, number: int, line: str) -> str:
        where = f"{_name(path)}, line {number}"
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(
                f"{where} cannot be read as JSON: {error.msg} (character {error.pos + 1})"
            ) from None
        except ValueError as error:  # a number of too many digits
            raise TextError(f"{where} cannot be read as JSON: {error}") from None
        except RecursionError:
            raise TextError(f"{where} cannot be read as JSON: it is nested too deep") from None
        return _checked(where, entry if isinstance(entry, str) else self._of_object(where, entry))

    def _of_object(self, where: str, entry: object) -> str:
        if not isinstance(entry, dict):
            raise TextError(f"{where} holds {_said(entry)}; an object or a string is needed")
        field = self.field or _FIELD
        if field not in entry:
            held = ", ".join(map(repr, list(entry)[:8])) or "none"
            raise TextError(
                f"{where} has no field {field!r}; its fields are {held}: choose one with --field"
            )
        text = entry[field]
        if not isinstance(text, str):
            raise TextError(f"{where}: the field {field!r} holds {_said(text)}, not a text")
        return text


def _kind(path: Path) -> str:
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
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """The file's bytes, unpacked; the standard input stays open."""
    if str(path) == "-":
        _check_input()
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    _kind(path)
    try:
        file = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield cast(BufferedIOBase, file)


def _check_input() -> None:
    if sys.stdin is None:
        raise TextError("the standard input is closed; give a file of texts")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A fault while reading, in one line."""
    try:
        yield
    except _UNPACKING as error:
        raise TextError(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise TextError(f"{_name(path)} cannot be read: {error.strerror}") from None


def _check_start(path: Path, data: bytes) -> None:
    """Refuse a file whose first bytes are no text."""
    if data.startswith(_UTF16):
        raise _utf16(path)
    nul = data.find(b"\0")
    if nul >= 0:
        raise TextError(f"{path} is not text (byte {nul} is 0); give text files in UTF-8")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.end < len(data) or len(data) < _FIRST:  # else a character cut at the end
            raise _not_utf8(path, error.start, data[error.start]) from None


def _checked(where: str, text: str) -> str:
    """The text, refused where it holds half of a character (JSON can write that)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise TextError(f"{where} holds {half}, half of a character; write both halves") from None
    return text


def _lines(path: Path, file: BufferedIOBase) -> Iterator[tuple[int, str]]:
    """Each line with its number, without its end."""
    at = 0
    with _readable(path):
        for number, line in enumerate(file, 1):
            yield number, _decoded(path, line, number, at).rstrip("\r\n")
            at += len(line)


def _decoded(path: Path, data: bytes, number: int | None = None, at: int = 0) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if at == 0 and data.startswith(_UTF16):
            raise _utf16(path) from None
        raise _not_utf8(path, at + error.start, data[error.start], number) from None
    return text if at else text.removeprefix("\ufeff")


def _utf16(path: Path) -> TextError:
    return TextError(f"{_name(path)} begins like UTF-16; convert it to UTF-8 first")


def _not_utf8(path: Path, at: int, byte: int, line: int | None = None) -> TextError:
    where = _name(path) if line is None else f"{_name(path)}, line {line},"
    return TextError(f"{where} is not UTF-8 text (byte {at} is {byte:#04x}); convert it to UTF-8")


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()


def _name(path: Path) -> str:
    return "the standard input" if str(path) == "-" else str(path)


def _said(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
