"""What the viewer's grid of heads can be coloured by: what each head does, and numbers of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headwise.see.summary import RULES, HeadSummary
from headwise.show.grid import KINDS
from headwise.show.palette import Kind, hex_of

__all__ = ["kinds_told", "number", "numbers", "of_record"]

_DARK = {"first": "#4a5568", "separator": "#5c564a", "no role": "#3a3a3a", "coreference": "#b9a9a2"}
"""Colours on a dark page, of the kinds whose own would glare or be lost on it."""

_MASSES = {
    "previous": "attention to the token before",
    "self": "attention to the token itself",
    "first": "attention to the first token",
    "same token": "attention to the last earlier token of the same kind",
}
_APART = ", mean over the queries for which no other rule names the same key"

_STATISTICS = {
    "entropy": (
        "Entropy",
        "mean entropy of the rows: 0 where a row looks at one key alone",
        "nats",
    ),
    "distance": ("Distance", "mean distance to the keys looked at, under the weights", "tokens"),
    "largest": ("Largest weight", "mean of the largest weight of each row", ""),
    "to_first": ("First token, all rows", "mean attention to the first token, over all rows", ""),
}


def of_record(summaries: Sequence[HeadSummary]) -> list[dict[str, Any]]:
    """What a record says by itself: what each head does, its masses under every rule, and means over its rows."""
    names = list(KINDS)
    does = {
        str(s.id): [names.index(s.does if s.does in KINDS else "other"), number(s.mass)]
        for s in summaries
    }
    found: list[dict[str, Any]] = [
        {
            "name": "does",
            "title": "What the head does most",
            "says": "where most of its attention goes on this text; paler: less of it",
            "kinds": kinds_told(list(KINDS.values())),
            "values": does,
        }
    ]
    for rule in RULES:
        values = {str(s.id): s.masses[rule] for s in summaries}
        title = rule[0].upper() + rule[1:]
        found.append(numbers(rule, title, _MASSES[rule] + _APART, "", values, share=True))
    for name, (title, says, unit) in _STATISTICS.items():
        share = name in ("largest", "to_first")
        values = {str(s.id): s.means[name] for s in summaries if name in s.means}
        found.append(numbers(name, title, says, unit, values, share=share))
    return [one for one in found if one["values"]]


def numbers(
    name: str,
    title: str,
    says: str,
    unit: str,
    values: Mapping[str, float],
    share: bool = False,
) -> dict[str, Any]:
    """A colouring by one number of each head; what is no number is left out.

    Args:
        name: in the address of a view.
        title: in the list.
        says: what the number is.
        unit: "" for none.
        values: by head.
        share: whether it lies between 0 and 1.
    """
    finite = {head: x for head, x in values.items() if math.isfinite(x)}
    low, high = min(finite.values(), default=0.0), max(finite.values(), default=0.0)
    diverging = low < 0
    if share:
        low, high = min(low, 0.0), 1.0
    elif diverging:
        high = max(-low, high)
        low = -high
    else:
        low = 0.0
    return {
        "name": name,
        "title": title,
        "says": says,
        "unit": unit,
        "low": number(low),
        "high": number(high),
        "diverging": diverging,
        "values": {head: number(x) for head, x in finite.items()},
    }


def kinds_told(kinds: Sequence[Kind]) -> list[dict[str, str]]:
    """Kinds with their colours on a light and on a dark page."""
    found = []
    for kind in kinds:
        colour = hex_of(kind.colour)
        found.append({"name": kind.does, "colour": colour, "dark": _DARK.get(kind.does, colour)})
    return found


def number(x: float, digits: int = 4) -> float | None:
    """A number as JSON can hold it."""
    return float(f"{x:.{digits}g}") if math.isfinite(x) else None
