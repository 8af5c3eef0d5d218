"""Annotations of characters in JSON: one object for each text, each fault with its place.

An object is a line of a JSON lines file, or is given from Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.names import TextError
from headwise.see.texts.reading import lines, name_of, opened, parsed, said, whole
from headwise.see.texts.units import Span

__all__ = [
    "Entries",
    "entries",
    "items_of",
    "leaving_out",
    "numbers_of",
    "span_of",
    "text_of",
    "without_margin",
]

Entries = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""A JSON lines file, or what its lines hold: one object or many."""


def entries(source: Entries, faults: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects in order, each with the words that name its place.

    Args:
        source: a file, packed where it ends in .gz, or objects.
        faults: gets a line for each that is no object.

    Raises:
        TextError: a file that cannot be read or is not UTF-8.
    """
    if isinstance(source, str | Path):
        found = _of_file(Path(source), faults)
    else:
        given = [source] if isinstance(source, Mapping) else source
        found = ((f"entry {number}", one) for number, one in enumerate(given, 1))
    for where, entry in found:
        with leaving_out(where, faults):
            if not isinstance(entry, Mapping):
                raise TextError(f"an object is needed, came {said(entry)}")
            yield where, entry


def _of_file(path: Path, faults: list[str]) -> Iterator[tuple[str, object]]:
    with opened(path) as file:
        for number, line in lines(path, file):
            where = f"{name_of(path)}, line {number}"
            if line.strip():
                try:
                    entry = parsed(where, line)
                except TextError as error:
                    faults.append(f"{error}; it is left out")
                else:
                    yield where, entry


@contextmanager
def leaving_out(where: str, faults: list[str]) -> Iterator[None]:
    """Leave out what turns out to be wrong, and tell it: `FILE, line N: what is wrong`."""
    try:
        yield
    except TextError as error:
        faults.append(f"{where}: {error}; it is left out")


def text_of(entry: Mapping[str, Any], field: str) -> str:
    """A text of an object.

    Raises:
        TextError: it has none under this name.
    """
    text = entry.get(field)
    if not isinstance(text, str) or not text.strip():
        came = f"came {said(text)}" if field in entry else f"its fields are {_fields(entry)}"
        raise TextError(f"a text {field!r} is needed, {came}")
    return whole(f"{field!r}", text)


def items_of(entry: Mapping[str, Any], field: str) -> list[Any]:
    """A list of an object.

    Raises:
        TextError: it has none under this name.
    """
    found = entry.get(field)
    if not isinstance(found, list | tuple):
        came = f"came {said(found)}" if field in entry else f"its fields are {_fields(entry)}"
        raise TextError(f"a list {field!r} is needed, {came}")
    return list(found)


def numbers_of(value: Any, count: int, what: str) -> list[int]:
    """So many whole numbers.

    Raises:
        TextError: something else.
    """
    good = isinstance(value, list | tuple) and len(value) == count
    if not good or any(not isinstance(x, int) or isinstance(x, bool) for x in value):
        raise TextError(f"{what} is needed, came {str(value)[:60]}")
    return list(value)


def span_of(value: Any, text: str) -> Span:
    """Characters of a text: [start, end], the end the one after the last; counted without the space around it.

    Raises:
        TextError: no two numbers, characters outside the text, or nothing but space.
    """
    start, end = numbers_of(value, 2, "a span [start, end]")
    if not 0 <= start < end <= len(text):
        raise TextError(
            f"the span [{start}, {end}] is not within the text's {len(text)} characters"
        )
    if not text[start:end].strip():
        raise TextError(f"the span [{start}, {end}] holds nothing but space")
    return without_margin(text, start, end)


def without_margin(text: str, start: int, end: int) -> Span:
    """The same characters of text.strip(), which is what annotations are kept of."""
    margin, length = len(text) - len(text.lstrip()), len(text.strip())
    return max(0, start - margin), min(length, end - margin)


def _fields(entry: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, list(entry)[:8])) or "none"
