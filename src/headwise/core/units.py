"""Attention between units of several tokens: words, names, stretches of positions.

To a unit goes the sum over its keys, from it the mean over its queries (Clark et al. 2019), and what a unit looks
at most is told among all other units (and itself where that is what is named). Only rows that were asked about are
kept, and never more of a pattern than a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.scores import BLOCK_CELLS, Scores
from headwise.core.sight import Sight

__all__ = ["CaseStatistics", "Cases", "measure_units"]


@dataclass(frozen=True, eq=False)
class Cases:
    """Which units of keys some units of queries should look at, in a batch.

    A view is a text of the batch as cut into units by one source; a text may have several, or none.

    Attributes:
        batch_of: of each view, its text's row in the batch.
        unit_of_key: of each key of each view, its unit, `num_units` where it is in none.
        num_units: the most units of keys that a view has.
        view: of each row (a unit of queries that is asked about), its view; rows by their first token.
        first: its first token.
        length: how many tokens it has.
        own: the unit of keys that it is itself, -1 where it is none.
        row: of each case, its row.
        named: of each case, the units its row should look at, -1 behind the last.
    """

    batch_of: Int[Tensor, " view"]
    unit_of_key: Int[Tensor, "view key"]
    num_units: int
    view: Int[Tensor, " row"]
    first: Int[Tensor, " row"]
    length: Int[Tensor, " row"]
    own: Int[Tensor, " row"]
    row: Int[Tensor, " case"]
    named: Int[Tensor, "case named"]

    def to(self, device: torch.device) -> Cases:
        """The same on a device."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {
            name: x.to(device) if isinstance(x, Tensor) else x for name, x in held.items()
        }
        return Cases(**moved)

    @cached_property
    def starts(self) -> list[int]:
        """The first token of each row, which rise."""
        found: list[int] = self.first.tolist()
        return found

    @cached_property
    def longest(self) -> int:
        """How many tokens the longest row has."""
        return int(self.length.max()) if self.length.numel() else 0


@dataclass(frozen=True, eq=False)
class CaseStatistics:
    """What came of each case, in float32.

    Attributes:
        mass: the weight on the named units.
        hits: whether one of them has the largest weight of all other units; of several that have it, their share.
        seen: which of the named units may be seen (axes of size 1 where that is the same for all heads).
        visible: how many other units may be seen, and the row's own where it is named.
    """

    mass: Float[Tensor, "case head"]
    hits: Float[Tensor, "case head"]
    seen: Bool[Tensor, "case named _"]
    visible: Int[Tensor, "case _"]


@torch.no_grad()
def measure_units(scores: Scores, cases: Cases) -> CaseStatistics:
    """The statistics of all cases of one call."""
    parts = [
        _of_block(scores, cases, start, stop, rows) for start, stop, rows in _blocks(scores, cases)
    ]
    if not parts:
        return _none(scores, cases)
    found = {}
    order = torch.cat([case for case, _ in parts]).argsort()
    for f in fields(CaseStatistics):
        held = [getattr(part, f.name) for _, part in parts]
        found[f.name] = torch.cat(held)[order]
    return CaseStatistics(**found)


def _none(scores: Scores, cases: Cases) -> CaseStatistics:
    heads, named = scores.shape[1], cases.named.shape[1]
    nothing = scores.q.new_zeros(0, heads, dtype=torch.float32)
    seen = torch.zeros(0, named, 1, dtype=torch.bool, device=nothing.device)
    return CaseStatistics(nothing, nothing, seen, seen.sum(1))


def _blocks(scores: Scores, cases: Cases) -> Iterator[tuple[int, int, slice]]:
    """Ranges of queries that hold all tokens of some rows, and these rows: those that begin in it."""
    batch, heads, queries, keys = scores.shape
    most = max(1, BLOCK_CELLS // max(1, batch * heads * keys))
    starts, row = cases.starts, 0
    while row < len(starts):
        start, end = starts[row], row
        while end < len(starts) and starts[end] < start + most:
            end += 1
        yield start, min(queries, starts[end - 1] + cases.longest), slice(row, end)
        row = end


def _of_block(
    scores: Scores, cases: Cases, start: int, stop: int, rows: slice
) -> tuple[Tensor, CaseStatistics]:
    """The numbers of the cases that belong to some rows, and which these are."""
    sight = scores.sight(start, stop, scores.reach(start, stop))
    unit = cases.unit_of_key[:, sight.keys]
    place = (cases.view[rows], cases.first[rows] - start, cases.length[rows])
    pattern = scores.tile(start, stop, sight).pattern[cases.batch_of]
    weight = _from_units(_to_units(pattern, unit, cases.num_units), *place)
    open_keys = _open(sight, stop - start)
    open_keys = open_keys.expand(scores.shape[0], -1, -1, -1)[cases.batch_of]
    seen = _from_units(_to_units(open_keys, unit, cases.num_units), *place) > 0
    case = ((cases.row >= rows.start) & (cases.row < rows.stop)).nonzero()[:, 0]
    return case, _told(
        weight, seen, cases.own[rows], cases.row[case] - rows.start, cases.named[case]
    )


def _told(
    weight: Float[Tensor, "row unit head"],
    seen: Bool[Tensor, "row unit _"],
    own: Int[Tensor, " row"],
    row: Int[Tensor, " case"],
    named: Int[Tensor, "case named"],
) -> CaseStatistics:
    """The numbers of cases, from the weights of their rows."""
    others = seen & (torch.arange(seen.shape[1], device=own.device) != own[:, None])[..., None]
    best = weight.masked_fill(~others, 0.0).amax(1)
    tied = ((weight >= best[:, None]) & others).sum(1)[row]  # of the others, at least one
    index = (row[:, None], named.clamp_min(0))
    itself = (named == own[row][:, None])[..., None]
    named_seen = seen[index] & (named >= 0)[..., None]
    on_named = weight[index].masked_fill(~named_seen, 0.0)
    top = torch.maximum(best[row], on_named.amax(1))
    first = (on_named >= top[:, None]) & named_seen
    among = tied * (best[row] >= top) + (first & itself).sum(1)
    mass = on_named.sum(1)
    hits = (first.sum(1) / among.clamp_min(1)).masked_fill(mass <= 0, 0.0)
    nan = weight.isnan().any(1)[row]  # a broken row is told as such
    visible = others.sum(1)[row] + (named_seen & itself).sum(1)
    return CaseStatistics(
        mass.masked_fill(nan, float("nan")).float(), hits.float(), named_seen, visible
    )


def _open(sight: Sight, queries: int) -> Float[Tensor, "_ _ query key"]:
    """1 where a query may see a key, over the keys of the sight."""
    batch, heads = (max((c.shape[axis] for _, c in sight.closed), default=1) for axis in (0, 1))
    width = sight.keys.stop - sight.keys.start
    found = torch.ones(batch, heads, queries, width, device=sight.visible.device)
    for part, closed in sight.closed:
        found[..., part].masked_fill_(closed, 0.0)
    return found


def _to_units(
    pattern: Float[Tensor, "view head query key"], unit: Int[Tensor, "view key"], units: int
) -> Float[Tensor, "view head query unit"]:
    """The sum over the keys of each unit."""
    index = unit[:, None, None].expand(pattern.shape)
    sums = pattern.new_zeros(*pattern.shape[:3], units + 1)
    return sums.scatter_add_(3, index, pattern)[..., :units]


def _from_units(
    pattern: Float[Tensor, "view head query unit"],
    view: Int[Tensor, " row"],
    first: Int[Tensor, " row"],
    length: Int[Tensor, " row"],
) -> Float[Tensor, "row unit head"]:
    """The mean over the queries of each row."""
    by_query = pattern.transpose(1, 3).transpose(1, 2)  # [view, query, unit, head]
    sums = by_query[view, first]
    for more in range(1, int(length.max())):
        longer = (length > more).nonzero()[:, 0]
        sums.index_add_(0, longer, by_query[view[longer], first[longer] + more])
    return sums / length[:, None, None]
