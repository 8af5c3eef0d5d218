"""The strong cells of long patterns from the statistics of one walk, without a pattern in memory.

A row adds up to 1 at most, so no more than 1 / least of its cells can be `least` or more: they are all among that
many strongest, and what the pooled map holds besides them is the rest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.core.kernel import MOST_TOP
from headwise.core.streaming import Statistics, Wanted, measure
from headwise.see.record import LayerRecord
from headwise.show.page.apart import apart_keys
from headwise.show.page.cells import Kept
from headwise.show.page.regions import visible_by_region

__all__ = ["streamed"]

_NARROWEST = 16
"""Channels of values that the kernel takes at least."""


def streamed(layer: LayerRecord, least: float, side: int) -> list[Kept] | None:
    """The cells of at least `least` of a layer's heads, as `kept_heads` has them.

    None where so many could be that strong, or where rows do not add up to 1 (a sink, weights that are no numbers).
    """
    top = _most(least)
    if top > MOST_TOP or layer.scores.sink is not None or not all(layer.scores.shape):
        return None
    sets = apart_keys(layer)
    lies, found = measure(layer.scores, _as_values(layer, sets), Wanted(top=top, pool=side))
    assert found.pooled is not None
    if not bool(torch.isfinite(found.pooled).all() & torch.isfinite(found.entropy).all()):
        return None
    counted = visible_by_region(layer, side)
    visible = counted.expand(layer.num_heads, -1, -1).cpu().numpy()
    on = lies[0, ..., : len(sets)].double().cpu().numpy()
    return [
        _kept(layer, found, h, visible[h], least, (sets, on[h].T)) for h in range(layer.num_heads)
    ]


def _as_values(layer: LayerRecord, sets: np.ndarray) -> Tensor:
    """Values of which each query takes what it gives the keys of each set: 1 there."""
    k = layer.scores.k
    wide = k.new_zeros(*k.shape[:3], _NARROWEST)
    wide[..., : len(sets)] = torch.from_numpy(sets.T).to(wide)
    return wide


def _most(least: float) -> int:
    """So many cells of a row can be so strong, and one more where its weights are rounded."""
    return MOST_TOP + 1 if least <= 0 else int(1 / least) + 1


def _kept(
    layer: LayerRecord,
    found: Statistics,
    head: int,
    visible: np.ndarray,
    least: float,
    apart: tuple[np.ndarray, np.ndarray],
) -> Kept:
    assert found.top_keys is not None
    assert found.top_weights is not None
    assert found.pooled is not None
    queries, keys = layer.scores.shape[2:]
    row, key, weight = _strong(found.top_keys[0, head], found.top_weights[0, head], least)
    sees = (found.largest[0, head] > 0).double().cpu().numpy()
    rest = np.maximum(sees - np.bincount(row, weight, minlength=queries), 0)
    side = len(visible)
    region = row * side // queries, key * side // keys
    mass = found.pooled[0, head].double().cpu().numpy() * _rows_of(queries, side)[:, None]
    np.subtract.at(mass, region, weight)
    others = visible.copy()
    np.subtract.at(others, region, 1)
    mass = np.where(others > 0, np.maximum(mass, 0), 0)
    count = np.bincount(row, minlength=queries)
    sets, on = apart
    kept = [np.bincount(row[own[key]], weight[own[key]], minlength=queries) for own in sets]
    beside = np.clip(on - kept, 0, rest)
    return Kept((queries, keys), count, key, weight, rest, least, mass, others, sets, beside)


def _strong(keys: Tensor, weights: Tensor, least: float) -> tuple[np.ndarray, ...]:
    """Rows, keys and weights of the cells that are strong, row by row with rising keys."""
    row, at = (weights >= least).nonzero(as_tuple=True)
    key, weight = keys[row, at], weights[row, at].double()
    order = np.lexsort((key.cpu().numpy(), row.cpu().numpy()))
    return tuple(x.cpu().numpy()[order] for x in (row, key, weight))


def _rows_of(queries: int, side: int) -> np.ndarray:
    """How many rows each region has."""
    found: np.ndarray = np.bincount(np.arange(queries) * side // queries, minlength=side)
    return found
