"""GAP's tables: a pronoun, two names, and which of them it speaks of (Webster et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.names import TextError
from headwise.see.probes.entries import leaving_out, without_margin
from headwise.see.texts.reading import ending, lines, name_of, opened
from headwise.see.texts.units import Span

__all__ = ["GapRow", "is_gap", "read_gap"]

_NEEDED = (
    "Text",
    "Pronoun",
    "Pronoun-offset",
    "A",
    "A-offset",
    "A-coref",
    "B",
    "B-offset",
    "B-coref",
)
_TRUTH = {"TRUE": True, "FALSE": False}
_JSON = {".jsonl", ".ndjson", ".json"}


@dataclass(frozen=True)
class GapRow:
    """One row: its text, the characters of the pronoun and of both names, and whether each name corefers."""

    text: str
    pronoun: Span
    a: Span
    b: Span
    coref: tuple[bool, bool]


def is_gap(path: Path) -> bool:
    """Whether a file of coreference is a table of GAP's, and not JSON lines.

    Raises:
        TextError: it is neither.
    """
    if ending(path) in _JSON or str(path) == "-":
        return False
    with opened(path) as file:
        first = next((line for _, line in lines(path, file) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return False
    missing = [name for name in _NEEDED if name not in first.split("\t")]
    if missing:
        raise TextError(
            f"{name_of(path)} is neither JSON lines nor a table of GAP's: its first line has no column "
            f"{missing[0]!r}; the columns are {', '.join(_NEEDED)}, split by tabs"
        )
    return True


def read_gap(path: Path, faults: list[str]) -> Iterator[GapRow]:
    """The rows of a table in order; `faults` gets a line for each that is left out.

    Raises:
        TextError: a file that cannot be read or is not UTF-8.
    """
    columns: list[str] = []
    with opened(path) as file:
        for number, line in lines(path, file):
            if not line.strip():
                continue
            if not columns:
                columns = line.split("\t")
                continue
            with leaving_out(f"{name_of(path)}, line {number}", faults):
                yield _row(columns, line.split("\t"))


def _row(columns: Sequence[str], values: Sequence[str]) -> GapRow:
    if len(values) != len(columns):
        raise TextError(f"{len(columns)} columns are needed, came {len(values)}")
    row = dict(zip(columns, values, strict=True))
    pronoun, a, b = _span(row, "Pronoun"), _span(row, "A"), _span(row, "B")
    return GapRow(row["Text"], pronoun, a, b, (_truth(row, "A-coref"), _truth(row, "B-coref")))


def _span(row: Mapping[str, str], name: str) -> Span:
    text, wanted, offset = row["Text"], row[name], row[f"{name}-offset"]
    if not (offset.isascii() and offset.isdecimal()):
        raise TextError(f"{name}-offset must be a whole number, came {offset!r}")
    start = int(offset)
    if not wanted.strip() or text[start : start + len(wanted)] != wanted:
        there = text[start : start + len(wanted)] or "nothing"
        raise TextError(
            f"{name} {wanted!r} is not at character {start} of the text: {there!r} is there"
        )
    return without_margin(text, start, start + len(wanted))


def _truth(row: Mapping[str, str], name: str) -> bool:
    found = _TRUTH.get(row[name].upper())
    if found is None:
        raise TextError(f"{name} must be TRUE or FALSE, came {row[name]!r}")
    return found
