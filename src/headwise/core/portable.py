"""Statistics in plain torch: any device, any mask, bias, softcap, sinks.

The walk goes over blocks of query rows (the mask is asked once for each) and, within these, over slices of the
heads, small enough for the tile of the pattern to stay near the processor. Each part of what is wanted is
gathered by a collector of its own; a part that is not wanted has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from headwise.core import masks
from headwise.core import scores as blocks
from headwise.core.pooling import Columns
from headwise.core.rowwise import Functions, Numbers, Probes, Rows
from headwise.core.scores import Scores, Tile, mix
from headwise.core.streaming import Statistics, Wanted
from headwise.core.strongest import Strongest

__all__ = ["measure"]

ROWS = 64
"""Query rows of a block on the CPU: enough for fast products, few enough to skip what causality hides."""

WIDE = 64
"""How many times larger a tile is on other devices, which are slow to start and quick to run."""


@runtime_checkable
class Collector(Protocol):
    """What gathers one part of the statistics: told of each block of rows, then given its tiles."""

    def enter(self, rows: Rows) -> None:
        """The next block of rows."""

    def add(self, tile: Tile, heads: slice) -> None:
        """The block's pattern for a slice of the heads."""

    def result(self) -> dict[str, Any]:
        """What was gathered, by the names in Statistics."""


@torch.no_grad()
def measure(scores: Scores, v: Tensor, wanted: Wanted) -> tuple[Tensor, Statistics]:
    """The head outputs and statistics of one call; `streaming.measure` says what they mean."""
    scores = _prepared(scores)
    batch, heads, queries, _ = scores.shape
    values = v.to(scores.q.dtype).contiguous()
    z = v.new_empty(batch, queries, heads, v.shape[-1]).transpose(1, 2)
    collectors = _collectors(scores, wanted)
    per_group = heads // v.shape[1]
    for start, stop, keys in _row_blocks(scores, whole=bool(wanted.functions)):
        sight = scores.sight(start, stop, keys)
        rows = Rows(scores, start, stop, sight)
        for collector in collectors:
            collector.enter(rows)
        for part in _head_slices(scores, rows, whole=bool(wanted.functions)):
            tile = scores.tile(start, stop, sight, part)
            groups = slice(part.start // per_group, part.stop // per_group)
            z[:, part, start:stop] = mix(tile.pattern, values[:, groups, keys])
            for collector in collectors:
                collector.add(tile, part)
    found: dict[str, Any] = {}
    for collector in collectors:
        found |= collector.result()
    return z, Statistics(**found)


def _prepared(scores: Scores) -> Scores:
    """The same call in float32 at least, and a bias of -inf said as the mask it is."""
    dtype = torch.promote_types(scores.q.dtype, torch.float32)
    mask, bias = scores.mask, scores.bias
    if bias is not None and bool(bias.isneginf().any()):
        queries = scores.shape[2]
        closed = masks.tensor(~bias.isneginf().expand(-1, -1, queries, -1))
        mask = closed if mask is None else mask & closed
    return replace(
        scores, q=scores.q.to(dtype), k=scores.k.to(dtype).contiguous(), mask=mask, bias=bias
    )


def _collectors(scores: Scores, wanted: Wanted) -> Sequence[Collector]:
    """The collectors of what is wanted; the last one may spoil the tile, so the order matters."""
    found: list[Collector] = [Numbers(scores)]
    if wanted.probes is not None:
        found.append(Probes(scores, wanted.probes))
    if wanted.functions:
        found.append(Functions(scores, wanted.functions))
    if wanted.received or wanted.pool:
        found.append(Columns(scores, wanted))
    if wanted.top:
        found.append(Strongest(scores, wanted))
    return found


def _row_blocks(scores: Scores, whole: bool) -> Iterator[tuple[int, int, slice]]:
    """Ranges of rows that cover all queries, and the keys they reach; `whole` leaves room for all heads."""
    batch, heads, queries, _ = scores.shape
    most = ROWS if scores.q.device.type == "cpu" else max(1, queries)
    together = batch * (heads if whole else heads // scores.k.shape[1])
    start = stop = 0
    while start == 0 or start < queries:  # one empty block where there is no query
        stop = min(queries, start + most)
        keys = scores.reach(start, stop)
        stop = min(stop, start + max(1, _cells(scores) // _size(together, keys)))
        yield start, stop, scores.reach(start, stop)
        start = max(1, stop)


def _head_slices(scores: Scores, rows: Rows, whole: bool) -> Iterator[slice]:
    """Slices of the heads, whole KV groups each, that make tiles of the size wanted."""
    batch, heads = scores.shape[:2]
    per_group = heads // scores.k.shape[1]
    group = batch * per_group * (rows.stop - rows.start)
    size = per_group * max(1, _cells(scores) // _size(group, rows.sight.keys))
    size = heads if whole else size
    for first in range(0, heads, size):
        yield slice(first, min(heads, first + size))


def _cells(scores: Scores) -> int:
    """How many cells a tile may hold."""
    return blocks.BLOCK_CELLS if scores.q.device.type == "cpu" else WIDE * blocks.BLOCK_CELLS


def _size(rows: int, keys: slice) -> int:
    width: int = keys.stop - keys.start
    return max(1, rows * width)
