"""Who may attend, as the viewer takes it: each mask once, as a band where it is one, else as runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from headwise.core.recognise import recognise
from headwise.core.rules import Full, Window
from headwise.see.record import LayerRecord

__all__ = ["Masks"]


class Masks:
    """The masks of some layers, those that are alike once; `found` is what the viewer takes.

    A band [back, ahead] says that query q sees the keys q - back to q + ahead, with q counted so that the last
    query sits at the last key; None = any number. Rows are runs of keys, [start, length, ...] of each query.
    What some of a layer's heads may see counts as seen.
    """

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}
        self._by_mask: dict[tuple[int, Any, int], int] = {}
        self._last: tuple[torch.Tensor, int] | None = None

    def number(self, layer: LayerRecord) -> int:
        """The place of a layer's mask in `found`; layers often share one mask, which is asked once."""
        scores = layer.scores
        same = id(scores.mask), scores.shape[2:], scores.query_offset
        if same not in self._by_mask:
            self._by_mask[same] = self._new(layer)
        return self._by_mask[same]

    def _new(self, layer: LayerRecord) -> int:
        band = _plain_band(layer)
        if band is not None:
            return self._numbered({"band": band})
        allowed = _allowed(layer)
        if self._last is not None and torch.equal(self._last[0], allowed):
            return self._last[1]
        number = self._numbered(_told(allowed))
        self._last = allowed, number
        return number

    def _numbered(self, told: dict[str, Any]) -> int:
        key = json.dumps(told)
        if key not in self._known:
            self._known[key] = len(self.found)
            self.found.append(told)
        return self._known[key]


def _plain_band(layer: LayerRecord) -> list[int | None] | None:
    """The band of a mask that is nothing else, without asking it about each cell."""
    mask = layer.scores.mask
    queries, keys = layer.scores.shape[2:]
    if mask is None:
        return [None, None]
    if mask.limits or not isinstance(mask.rule, Full | Window):
        return None
    return list(mask.rule.band()) if layer.scores.query_offset == keys - queries else None


def _allowed(layer: LayerRecord) -> torch.Tensor:
    allowed = layer.scores.allowed(0, layer.scores.shape[2])
    assert allowed is not None
    queries, keys = layer.scores.shape[2:]
    return allowed.any(1, keepdim=True)[:1].expand(1, 1, queries, keys)


def _told(allowed: torch.Tensor) -> dict[str, Any]:
    queries, keys = allowed.shape[2:]
    mask = recognise(allowed, keys - queries)
    if not mask.limits and isinstance(mask.rule, Full | Window):
        return {"band": list(mask.rule.band())}
    return {"rows": [_runs(row) for row in allowed[0, 0].cpu().numpy()]}


def _runs(seen: np.ndarray) -> list[int]:
    edges = np.flatnonzero(np.diff(seen.astype(np.int8), prepend=0, append=0))
    starts, stops = edges[::2], edges[1::2]
    return [int(n) for n in np.stack([starts, stops - starts], 1).ravel()]
