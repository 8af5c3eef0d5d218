"""save_page: records as one HTML file that opens in any browser, also from a mail, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.files import check_writable
from headwise.names import ConfigError, OutputError
from headwise.see.record import Record
from headwise.see.summary import HeadSummary
from headwise.show.page.choosing import budget_for, least_for
from headwise.show.page.document import save_document
from headwise.show.page.scene import Scene
from headwise.show.page.starting import beginning
from headwise.show.page.tables import Table, model_of

__all__ = ["ENDINGS", "check_page", "records_of", "save_page", "scenes_of"]

ENDINGS = (".html", ".htm")

LONGEST = 65_535
"""Tokens of a text at most: cells are numbered with two bytes."""


def save_page(
    records: Record | Sequence[Record],
    path: str | Path,
    *,
    tables: Sequence[Table] = (),
    start: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write one HTML file that shows records: the map, lines and numbers of every head, one beside another.

    It holds all it needs and asks nothing of the network. Of long texts the strongest cells are kept and the others
    pooled, so that the file stays near 10 MB, and below 17 MB however long they are; the page says which are.

    Args:
        records: from `look`; the first one is shown first.
        path: of a .html file.
        tables: profiles, roles and importances of a model that is shown, to colour its heads by.
        start: what the view starts with, for instance {"head": "18.6", "colour": "entropy"}; the names are those
            in the address of a view. Where no head is named it is the most telling one of the text.
        progress: called as progress(chunks done, chunks in all).

    Raises:
        OutputError: a path that is no .html file, or cannot be written; an older file stays as it was.
        ConfigError: no record, a table of another model, or a start that is none.
        HeadError: a start at a head that is not there.
    """
    check_page(Path(path))
    scenes = scenes_of(records_of(records), tables=tables)
    begin = beginning(scenes, start)
    save_document(scenes, path, begin, progress)


def check_page(path: Path) -> None:
    """Refuse a path at which no page can be written, before anything is made.

    Raises:
        OutputError: another ending, or a path that cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise OutputError(
            f"{str(path)!r} is no name of a page; it must end in {' or '.join(ENDINGS)}"
        )
    check_writable(path, "the page")


def scenes_of(
    records: Sequence[Record],
    *,
    tables: Sequence[Table] = (),
    notes: Sequence[str] | None = None,
    off: Sequence[Sequence[str]] = (),
    told: Sequence[Mapping[str, Any]] | None = None,
    budget: float | None = None,
    summaries: Sequence[Sequence[HeadSummary]] = (),
) -> list[Scene]:
    """A scene for each record, with the tables that are of its model.

    Args:
        records: what is shown.
        tables: profiles, roles and importances.
        notes: what was done to each; None = nothing.
        off: ids of the heads at zero, of the first ones.
        told: chunks of JSON for each, as `Scene` takes them.
        budget: bytes of all their cells in the file; None = what suits their length.
        summaries: of the first ones, where they are known already.

    Raises:
        ConfigError: no record, a text longer than a page can number, or a table of a model that is not shown.
    """
    records = records_of(records)
    _check_length(records)
    shown = {record.model for record in records}
    for table in tables:
        if model_of(table) not in shown:
            raise ConfigError(
                f"a table is of {model_of(table)}, and the page shows {', '.join(sorted(shown))}; "
                "give tables of the models shown"
            )
    if budget is None:
        budget = budget_for(max(len(side.tokens) for record in records for side in record.sides))
    share = budget / len(records)
    return [
        Scene(
            record,
            title=title,
            note=notes[i] if notes else "",
            off=off[i] if i < len(off) else (),
            told=told[i] if told else {},
            tables=[table for table in tables if model_of(table) == record.model],
            least=least_for(record, share),
            given=summaries[i] if i < len(summaries) else (),
        )
        for i, (record, title) in enumerate(zip(records, _titles(records, notes), strict=True))
    ]


def _check_length(records: Sequence[Record]) -> None:
    """Refuse a text whose tokens two bytes cannot number."""
    sides = (x for r in records for one in r.layers.values() for x in (one.queries, one.keys))
    longest = max((len(side.tokens) for side in sides), default=0)
    if longest > LONGEST:
        raise ConfigError(
            f"a page shows texts of at most {LONGEST:,} tokens a side, came one of {longest:,}; "
            "look at a part of the text"
        )


def records_of(given: object) -> list[Record]:
    """One record or several, as a list.

    Raises:
        ConfigError: none, or something else.
    """
    if isinstance(given, Record):
        return [given]
    several = isinstance(given, Iterable) and not isinstance(given, str)
    found: list[Any] = list(given) if several else [given]  # type: ignore[call-overload]
    wrong = [type(one).__name__ for one in found if not isinstance(one, Record)]
    if wrong or not found:
        came = wrong[0] if wrong else "none"
        raise ConfigError(f"a page takes records from hw.look, at least one, came {came}")
    return found


def _titles(records: Sequence[Record], notes: Sequence[str] | None) -> list[str]:
    """What tells records apart, what does so best first: a note, the model where there are several, the text."""
    said = list(notes) if notes else [""] * len(records)
    models = len({record.model for record in records}) > 1
    changed = {
        (record.model, record.text) for record, note in zip(records, said, strict=True) if note
    }
    found = []
    for record, note in zip(records, said, strict=True):
        before = "unchanged" if (record.model, record.text) in changed else ""
        parts = [note or before, record.model if models else "", shortened(record.text, 40)]
        found.append(" · ".join(part for part in parts if part) or record.model)
    return found


def shortened(text: str, length: int) -> str:
    """A text on one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
