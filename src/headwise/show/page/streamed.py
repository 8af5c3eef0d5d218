"""The strong cells of long patterns from the statistics of one walk, without a pattern in memory.

A row adds up to 1 at most, so no more than 1 / least of its cells can be `least` or more: they are all among that
many strongest, and what the pooled map holds besides them is the rest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.core.kernel import MOST_TOP
from headwise.core.streaming import Statistics, Wanted, measure_rows
from headwise.see.record import LayerRecord
from headwise.show.page.cells import Kept
from headwise.show.page.regions import visible_by_region

__all__ = ["streamed"]


def streamed(layer: LayerRecord, least: float, side: int) -> list[Kept] | None:
    """The cells of at least `least` of a layer's heads, as `kept_heads` has them.

    None where so many could be that strong, or where rows do not add up to 1 (a sink, weights that are no numbers).
    """
    top = _most(least)
    if top > MOST_TOP or layer.scores.sink is not None or not all(layer.scores.shape):
        return None
    found = measure_rows(layer.scores, Wanted(top=top, pool=side))
    assert found.pooled is not None
    if not bool(torch.isfinite(found.pooled).all() & torch.isfinite(found.entropy).all()):
        return None
    counted = visible_by_region(layer, side)
    visible = counted.expand(layer.num_heads, -1, -1).cpu().numpy()
    return [_kept(layer, found, h, visible[h], least) for h in range(layer.num_heads)]


def _most(least: float) -> int:
    """So many cells of a row can be so strong, and one more where its weights are rounded."""
    return MOST_TOP + 1 if least <= 0 else int(1 / least) + 1


def _kept(
    layer: LayerRecord, found: Statistics, head: int, visible: np.ndarray, least: float
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
    return Kept((queries, keys), count, key, weight, rest, least, mass, others)


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
