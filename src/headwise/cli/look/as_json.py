"""What `headwise look --json` writes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwise.files import replacing
from headwise.names import HeadId
from headwise.see.preferring import Preference
from headwise.see.record import Record, Side
from headwise.see.summary import HeadSummary
from headwise.see.wording import Place, looks_of


def as_json(
    record: Record,
    summaries: Sequence[HeadSummary],
    heads: Sequence[HeadId],
    places: Sequence[Place],
    norms: bool = False,
) -> dict[str, Any]:
    """The record's facts: model, text, tokens, every head, and the patterns (and norms) of the heads asked for.

    An encoder-decoder has `target_tokens` too, the ones its decoder reads.
    """
    found: dict[str, Any] = {
        "model": record.model,
        "text": record.text,
        "tokens": _tokens(record.sides[0]),
        "heads": [_head(summary) for summary in summaries],
        "verified": _number(record.verified, 12),
    }
    if len(record.sides) > 1:
        found["target_tokens"] = _tokens(record.sides[1])
    if heads:
        found["patterns"] = {str(id): _rows(record.weights(id)) for id in heads}
    if heads and norms:
        found["norms"] = {str(id): _rows(record.norm_weights(id)) for id in heads}
    if places:
        found["word"] = [_place(record, place) for place in places]
    return found


def with_preferences(
    found: dict[str, Any],
    rather: tuple[str, str] | None,
    preferred: Sequence[Sequence[Preference]],
) -> dict[str, Any]:
    """The same with what each place of the word gives two others, as [head, weight, weight], where it was asked."""
    if rather is not None:
        for place, heads in zip(found["word"], preferred, strict=True):
            rows = [[str(x.head), _number(x.one), _number(x.other)] for x in heads]
            place["rather"] = {"one": rather[0], "other": rather[1], "heads": rows}
    return found


def write_json(found: dict[str, Any], path: Path) -> None:
    """Write UTF-8 to a file, or for `-` to the standard output, whatever its encoding.

    Raises:
        OutputError: the file cannot be written; an older one stays as it was.
    """
    text = json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    data = text.encode("utf-8", "backslashreplace")  # of a path that is no UTF-8: JSON's own escape
    if str(path) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with replacing(path, "the JSON") as place:
        place.write_bytes(data)


def _number(x: float, digits: int = 6) -> float | None:
    """A number as JSON can hold it: null where the model has made a NaN or an infinity."""
    return round(x, digits) if math.isfinite(x) else None


def _rows(weights: np.ndarray) -> list[list[float | None]]:
    return [[_number(weight) for weight in row] for row in weights.tolist()]


def _tokens(side: Side) -> list[dict[str, Any]]:
    return [{"text": t.text, "start": t.start, "end": t.end} for t in side.tokens]


def _head(summary: HeadSummary) -> dict[str, Any]:
    return {
        "id": str(summary.id),
        "does": summary.does,
        "mass": _number(summary.mass),
        "top": [
            {"query": cell.query, "key": cell.key, "weight": _number(cell.weight)}
            for cell in summary.top
        ],
        "masses": {rule: _number(mass) for rule, mass in summary.masses.items()},
        "kv_group": summary.kv_group,
    }


def _place(record: Record, place: Place) -> dict[str, Any]:
    word = place.word
    looks = [
        {
            "head": str(look.head),
            "first": None if look.first is None else _number(look.first),
            "looks_at": [[text, _number(weight)] for text, weight in look.looks_at],
        }
        for look in looks_of(record, place)
    ]
    at = {"text": word.text, "start": word.start, "end": word.end, "note": place.note}
    return at | {"looks": looks}
