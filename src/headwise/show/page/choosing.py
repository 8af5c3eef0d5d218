"""How strong a cell must be to be kept, so that a page stays of a size one can send."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from headwise.see.record import LayerRecord, Record

__all__ = ["BUDGET", "LADDER", "budget_for", "least_for"]

BUDGET = 10_000_000
"""Bytes of a page's cells, as they stand in the file."""

_LARGEST, _FROM, _PER_TOKEN = 16_000_000, 1024, 2000
"""Bytes of the cells at most; from so many tokens on a page may take so many more for each."""

LADDER = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.07, 0.1)
"""What `least` can be."""

_LAYERS, _BLOCKS, _ROWS = 8, 6, 8
"""So many layers are looked into, at so many places, each of so many rows."""

_PER_CELL = 1.6, 2.9
"""Bytes of a cell in the file where all of a row are kept, and where its key must be told too."""

_PER_ROW, _PER_HEAD = (1.0, 5.5), (100, 3000)
"""Bytes of a row and of a head beside its cells, at most: with all cells kept, and with the others told of."""


def budget_for(tokens: int) -> float:
    """Bytes of the cells of a page whose longest text has so many tokens: more for a long one."""
    return min(_LARGEST, BUDGET + _PER_TOKEN * max(0, tokens - _FROM))


def least_for(record: Record, budget: float = BUDGET) -> float:
    """The smallest `least` with which the cells of a record take about so many bytes in a file.

    Cells are counted in some rows of some layers.
    """
    sizes = np.zeros(len(LADDER))
    layers = list(record.layers.values())
    sampled = _spread(len(layers), _LAYERS)
    for at in sampled:
        sizes += _bytes(layers[at]) * len(layers) / len(sampled)
    fits = [least for least, size in zip(LADDER, sizes, strict=True) if size <= budget]
    return fits[0] if fits else LADDER[-1]


def _bytes(layer: LayerRecord) -> Float[np.ndarray, " step"]:
    """What a layer takes with each `least`, its heads and their mean."""
    _, heads, queries, _ = layer.scores.shape
    cells, rows = np.zeros(len(LADDER)), 0
    for start in _spread(max(1, queries - _ROWS + 1), _BLOCKS):
        stop = min(start + _ROWS, queries)
        with torch.no_grad():
            pattern = layer.scores.rows(start, stop)
        allowed = layer.scores.allowed(start, stop)
        seen = pattern.numel() if allowed is None else int(allowed.expand(pattern.shape).sum())
        cells += [seen, *(int((pattern >= least).sum()) for least in LADDER[1:])]
        rows += stop - start
    per_cell = np.array([_PER_CELL[0], *[_PER_CELL[1]] * (len(LADDER) - 1)])
    size: np.ndarray = per_cell * cells * queries / max(1, rows)
    some = np.array(LADDER) > 0
    beside: np.ndarray = np.where(some, *_PER_ROW[::-1]) * queries + np.where(
        some, *_PER_HEAD[::-1]
    )
    whole: np.ndarray = size * (heads + 1) / heads + beside * (heads + 1)
    return whole


def _spread(length: int, count: int) -> list[int]:
    """Some of the numbers below `length`, evenly."""
    at = np.linspace(0, length - 1, min(count, length)).round()
    return [int(i) for i in np.unique(at)]
