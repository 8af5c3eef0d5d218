"""Statistics over the columns of a pattern: mass received by each key, and the pooled map.

Rows that belong to one cell of the map are added up first (with one cell, where only the received mass is wanted),
the keys at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.rowwise import Rows
from headwise.core.scores import Scores, Tile
from headwise.core.streaming import Wanted

__all__ = ["Columns"]


class Columns:
    """Mass received by each key from real queries, how many of these may see it, and the pooled map."""

    def __init__(self, scores: Scores, wanted: Wanted) -> None:
        batch, heads, queries, keys = scores.shape
        device = scores.q.device
        self.wanted = wanted
        self.side = max(1, wanted.pool)
        self.query_cell, self.counts = cells_of(queries, self.side, wanted.query_lengths, device)
        self.key_cell = cells_of(keys, self.side, wanted.key_lengths, device)[0]
        self.key_cell.clamp_max_(self.side - 1)
        self.sums = scores.q.new_zeros(batch, heads, self.side, keys)
        self.most = torch.zeros_like(self.sums) if wanted.pool else None
        seen, heads = (1, 1) if scores.mask is None else scores.mask.extent()
        shape = (max(seen, len(self.query_cell)), heads, keys)
        self.seen_by = torch.zeros(shape, dtype=torch.long, device=device)

    def enter(self, rows: Rows) -> None:
        self.keys = rows.sight.keys
        cell = self.query_cell[:, rows.start : rows.stop]
        self.groups = groups_of(cell, self.side)
        if self.wanted.received:
            self.seen_by[..., self.keys] += rows.sight.seen_by(cell < self.side)

    def add(self, tile: Tile, heads: slice) -> None:
        if self.groups is None:
            return
        cells = slice(self.groups.first, self.groups.first + self.groups.count)
        rows = self.groups.gather(tile.pattern)
        self.sums[:, heads, cells, self.keys] += self.groups.kept(rows.sum(3))
        if self.most is not None:
            most = self.most[:, heads, cells, self.keys]
            torch.maximum(most, self.groups.kept(rows.amax(3)), out=most)

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.wanted.received:
            found = {"received": self.sums.sum(2).float(), "seen_by": self.seen_by}
        if self.most is not None:
            counts = self.counts.clamp_min(1)[:, None, :, None]
            cell = self.key_cell[:, None, None].expand(self.sums.shape)
            pooled = self.sums.new_zeros(*self.sums.shape[:3], self.side)
            most = pooled.scatter_reduce(3, cell, self.most, "amax")
            pooled = pooled.scatter_add(3, cell, self.sums) / counts
            found |= {"pooled": pooled.float(), "pooled_max": most.float()}
        return found


def cells_of(
    length: int, side: int, lengths: Int[Tensor, " batch"] | None, device: torch.device
) -> tuple[Int[Tensor, "#batch length"], Int[Tensor, "#batch side"]]:
    """The cell of each position in a map `side` cells wide, `side` where it is padding, and each cell's size."""
    if lengths is None:
        lengths = torch.tensor([length], device=device)
    lengths = lengths.to(device)[:, None]
    at = torch.arange(length, device=device)
    cell = (at * side).div(lengths.clamp_min(1), rounding_mode="floor")
    cell = cell.where(at < lengths, side)
    sizes = torch.zeros(len(lengths), side + 1, dtype=torch.long, device=device)
    sizes.scatter_add_(1, cell, torch.ones_like(cell))
    return cell, sizes[:, :side]


@dataclass(frozen=True, eq=False)
class Groups:
    """The rows of a block by cell: `count` cells from `first` on, of up to as many rows as `index` is wide.

    Attributes:
        first: the first cell.
        count: how many cells.
        index: the rows of each cell, its last one again where it has fewer; None where the rows of the block,
            as they are, fill the cells evenly.
        valid: which of these are there for the first time.
    """

    first: int
    count: int
    index: Int[Tensor, "#batch _ width"] | None
    valid: Bool[Tensor, "#batch _ width"]

    def gather(
        self, pattern: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head _ width key"]:
        """The rows of each cell, and rows of 0 where it has fewer."""
        batch, heads, queries, keys = pattern.shape
        if self.index is None:
            return pattern.view(batch, heads, self.count, queries // self.count, keys)
        flat = torch.arange(batch * heads, device=pattern.device) * queries
        index = flat.view(batch, heads, 1, 1) + self.index[:, None]
        rows = pattern.flatten(0, 2).index_select(0, index.flatten())
        return rows.view(*index.shape, keys) * self.valid[:, None, ..., None]

    def kept(
        self, of_cells: Float[Tensor, "batch head _ key"]
    ) -> Float[Tensor, "batch head _ key"]:
        """Numbers of the cells, 0 where the block has no row of a cell."""
        if self.index is None:
            return of_cells
        return of_cells.where(self.valid[:, None, :, :1], 0.0)


def groups_of(cell: Int[Tensor, "#batch query"], side: int) -> Groups | None:
    """The rows of a block by cell, from the cell of each row (rising; `side` for padding); None if all are."""
    real = cell[cell < side]
    if not real.numel():
        return None
    first, last = int(real.min()), int(real.max())
    cells = torch.arange(first, last + 1, device=cell.device)[:, None]
    before = (cell[:, None] < cells).sum(-1)[..., None]
    sizes = (cell[:, None] == cells).sum(-1)[..., None]
    step = torch.arange(int(sizes.max()), device=cell.device)
    valid = step < sizes
    even = len(cell) == 1 and valid.numel() == cell.shape[1] and bool(valid.all())
    index = (before + step.minimum(sizes - 1)).clamp(0, cell.shape[1] - 1)
    return Groups(first, len(cells), None if even else index, valid)
