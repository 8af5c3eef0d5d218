"""Which cells of a record's patterns a page keeps: all of a short text, the strong ones of a long one."""

from __future__ import annotations

import numpy as np
import torch

from headwise.see.record import LayerRecord
from headwise.show.page.cells import Kept

__all__ = ["kept_of"]


def kept_of(
    layer: LayerRecord, index: int, least: float, side: int, rows: range | None = None
) -> Kept:
    """The cells of one head.

    Args:
        layer: of the record.
        index: of the head among those the layer has.
        least: cells of at least this weight are kept; 0 = all that may be seen.
        side: of the pooled map of the others.
        rows: only of these queries; None = of all.
    """
    _, _, queries, keys = layer.scores.shape
    rows = range(queries) if rows is None else rows
    with torch.no_grad():
        found = layer.scores.rows(rows.start, rows.stop, slice(index, index + 1))[0, 0]
        allowed = layer.scores.allowed(rows.start, rows.stop)
    pattern = found.double().cpu().numpy()
    seen = np.ones(pattern.shape, bool)
    if allowed is not None:
        allowed = allowed.expand(-1, layer.num_heads, len(rows), keys)
        seen = allowed[0, index].cpu().numpy()
    return _kept(pattern, seen, least, side)


def _kept(pattern: np.ndarray, seen: np.ndarray, least: float, side: int) -> Kept:
    chosen = seen & (pattern >= least)
    at = np.nonzero(chosen)
    others = np.where(chosen, 0.0, pattern)
    pool = None if least <= 0 else _pooled(others, seen & ~chosen, side)
    return Kept(pattern.shape, chosen.sum(1), at[1], pattern[at], others.sum(1), pool, least)


def _pooled(values: np.ndarray, counted: np.ndarray, side: int) -> np.ndarray:
    """Mean of the counted values by region of side x side."""
    rows, columns = (np.arange(n) * side // max(n, 1) for n in values.shape)
    sums, counts = np.zeros((2, side, side))
    for into, what in ((sums, values), (counts, counted)):
        lines = np.zeros((side, what.shape[1]))
        np.add.at(lines, rows, what)
        np.add.at(into.T, columns, lines.T)
    return sums / np.maximum(counts, 1)
