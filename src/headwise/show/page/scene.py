"""A scene: one record as the viewer takes it, an index of plain values and chunks of bytes made when asked for."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headwise.names import HeadId
from headwise.see.record import LayerRecord, Record, Side
from headwise.see.summary import HeadSummary, summarise
from headwise.show.grid import KINDS
from headwise.show.page.cells import packed
from headwise.show.page.keeping import kept_of
from headwise.show.palette import hex_of

__all__ = ["Scene"]


@dataclass(frozen=True, eq=False)
class Scene:
    """One record to be shown.

    Attributes:
        record: of one text.
        title: beside which it is chosen among others.
        note: what was done to the model or text, "" for nothing.
        told: chunks of JSON by name, for panels that need more ("fires", "flow").
        least: cells of at least this weight are kept; 0 = all.
        side: of the pooled map of the others.
    """

    record: Record
    title: str = ""
    note: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    least: float = 0.0
    side: int = 64

    @cached_property
    def index(self) -> dict[str, Any]:
        """What the viewer reads first, as JSON takes it."""
        summaries = summarise(self.record)
        sides = self.record.sides
        return {
            "title": self.title or self.record.model,
            "model": self.record.model,
            "text": self.record.text,
            "note": self.note,
            "verified": _number(self.record.verified),
            "sides": [_side(side) for side in sides],
            "streams": self._streams(),
            "kinds": [{"name": k.does, "colour": hex_of(k.colour)} for k in KINDS.values()],
            "heads": {str(s.id): _head(s) for s in summaries},
            "statistics": {},
            "evidence": {},
            "told": list(self.told),
            "least": self.least,
        }

    @property
    def keys(self) -> list[str]:
        """The names of all chunks."""
        return [*map(str, self.record.heads()), *self.told]

    def chunk(self, key: str) -> bytes:
        """The bytes of a chunk, deflated.

        Raises:
            HeadError: there is none of this name.
        """
        if key in self.told:
            return zlib.compress(json.dumps(self.told[key], allow_nan=False).encode(), 9)
        id = HeadId.parse(key)
        layer = self.record.layer_of(id)
        return packed(kept_of(layer, layer.index(id.head), self.least, self.side))

    def rows(self, head: str, start: int, stop: int) -> bytes:
        """All cells of some rows of a head, deflated.

        Raises:
            HeadError: there is no such head.
        """
        id = HeadId.parse(head)
        layer = self.record.layer_of(id)
        return packed(kept_of(layer, layer.index(id.head), 0.0, 0, range(start, stop)))

    def _streams(self) -> list[dict[str, Any]]:
        by_name: dict[str, list[LayerRecord]] = {}
        for id, layer in self.record.layers.items():
            by_name.setdefault(id.stream, []).append(layer)
        places = {side.tokens: i for i, side in enumerate(self.record.sides)}
        return [
            {
                "name": name,
                "title": name or "",
                "queries": places[layers[0].queries.tokens],
                "keys": places.get(layers[0].keys.tokens, 0),
                "layers": [
                    {
                        "id": str(layer.id),
                        "number": layer.id.layer,
                        "heads": list(layer.naming.heads),
                        "kv": list(layer.naming.kv),
                        "total": layer.naming.total,
                    }
                    for layer in layers
                ],
            }
            for name, layers in by_name.items()
        ]


def _side(side: Side) -> dict[str, Any]:
    alone = [
        i
        for i, token in enumerate(side.tokens)
        if token.special or (token.id >= 0 and not any(c.isalnum() for c in token.text))
    ]
    return {
        "text": side.text,
        "tokens": [[t.label, t.start, t.end, int(t.special)] for t in side.tokens],
        "words": [[w.text, w.first, w.last] for w in side.words],
        "separators": alone,
    }


def _head(summary: HeadSummary) -> dict[str, Any]:
    return {
        "does": summary.does,
        "mass": _number(summary.mass),
        "kv": summary.kv_group,
        "masses": {rule: _number(mass) for rule, mass in summary.masses.items()},
        "top": [[cell.query, cell.key, _number(cell.weight)] for cell in summary.top],
    }


def _number(x: float) -> float | None:
    return float(f"{x:.5g}") if math.isfinite(x) else None
