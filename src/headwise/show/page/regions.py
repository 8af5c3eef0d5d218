"""Regions of a pooled map: which positions lie in each, and how many cells may be seen in it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.scores import BLOCK_CELLS
from headwise.see.record import LayerRecord

__all__ = ["in_regions", "seen_rows", "visible_by_region"]


def in_regions(length: int, side: int, device: torch.device) -> Float[Tensor, "side position"]:
    """Which region each position lies in: 1 there."""
    at = torch.arange(length, device=device)
    found = torch.zeros(side, length, device=device)
    found[at * side // max(1, length), at] = 1.0
    return found


def seen_rows(layer: LayerRecord, heads: slice, rows: range) -> Bool[Tensor, "head_or_1 row key"]:
    """Who may attend."""
    allowed = layer.scores.allowed(rows.start, rows.stop)
    if allowed is None:
        shape = 1, len(rows), layer.scores.shape[3]
        return torch.ones(shape, dtype=torch.bool, device=layer.scores.q.device)
    return allowed[0, heads] if allowed.shape[1] > 1 else allowed[0]


_counted: WeakKeyDictionary[Mask, dict[tuple[int, ...], Tensor]] = WeakKeyDictionary()
"""What was counted already: layers often share one mask."""


def visible_by_region(layer: LayerRecord, side: int) -> Int[Tensor, "head_or_1 side side"]:
    """How many cells of each region may be seen."""
    scores = layer.scores
    if scores.mask is None:
        return _count(layer, side)
    known = _counted.setdefault(scores.mask, {})
    of = *scores.shape[2:], scores.query_offset, side
    if of not in known:
        known[of] = _count(layer, side)
    return known[of]


def _count(layer: LayerRecord, side: int) -> Int[Tensor, "head_or_1 side side"]:
    queries, keys = layer.scores.shape[2:]
    device = layer.scores.q.device
    of_rows, of_keys = (in_regions(n, side, device) for n in (queries, keys))
    found, size = torch.zeros(1, side, side, device=device), max(1, BLOCK_CELLS // max(1, keys))
    for start in range(0, queries, size):
        rows = range(start, min(start + size, queries))
        seen = seen_rows(layer, slice(None), rows).float()
        found = found + of_rows[:, rows.start : rows.stop] @ (seen @ of_keys.T)
    return found.round().long()
