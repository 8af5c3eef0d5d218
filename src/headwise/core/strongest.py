"""The strongest keys of each row, exactly, without sorting the row."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.rowwise import Rows
from headwise.core.scores import Scores, Tile
from headwise.core.sight import heads_of
from headwise.core.streaming import Wanted

__all__ = ["Strongest", "strongest"]

_OUT = -1.0
"""Stands in for the weight of a key that may not be among the strongest; real weights are at least 0."""


class Strongest:
    """The `top` strongest keys of each row, of those that it sees, are eligible and far enough."""

    def __init__(self, scores: Scores, wanted: Wanted) -> None:
        shape = (*scores.shape[:3], wanted.top)
        self.weights = scores.q.new_empty(shape)
        self.keys = torch.empty(shape, dtype=torch.long, device=scores.q.device)
        self.apart = wanted.apart
        self.lacking = None
        if wanted.eligible is not None:  # added to a weight, it leaves less than nothing
            self.lacking = (~wanted.eligible[:, None, None]).to(self.weights) * (_OUT - 1)

    def enter(self, rows: Rows) -> None:
        self.rows = slice(rows.start, rows.stop)
        self.sight = rows.sight
        self.around = rows.near(self.apart - 1) if self.apart else slice(0, 0)
        far = (rows.position[:, None] - rows.key[self.around]).abs() >= self.apart
        self.close = ~far

    def add(self, tile: Tile, heads: slice) -> None:
        """Spoils the pattern."""
        worth = tile.pattern
        for part, closed in self.sight.closed:
            worth[..., part].masked_fill_(heads_of(closed, heads), _OUT)
        if self.lacking is not None:
            worth.add_(self.lacking[..., self.sight.keys])
        worth[..., self.around].masked_fill_(self.close, _OUT)
        count = self.keys.shape[-1]
        weight, key = strongest(worth, min(count, worth.shape[-1]))
        none = weight < 0
        missing = (0, count - key.shape[-1])
        key = (key + self.sight.keys.start).masked_fill(none, -1)
        self.keys[:, heads, self.rows] = F.pad(key, missing, value=-1)
        self.weights[:, heads, self.rows] = F.pad(weight.masked_fill(none, 0.0), missing)

    def result(self) -> dict[str, Any]:
        return {"top_keys": self.keys, "top_weights": self.weights.float()}


def strongest(
    worth: Float[Tensor, "*row key"], count: int
) -> tuple[Float[Tensor, "*row {count}"], Int[Tensor, "*row {count}"]]:
    """The `count` largest numbers of each row and where they are, largest first.

    They lie in the `count` columns with the largest maxima when a row is written in lines under each other
    (and in what is left over), so only these are looked at one by one.
    """
    keys = worth.shape[-1]
    lines = _lines(keys, count)
    if lines < 2:
        return worth.topk(count, dim=-1)
    width = keys // lines
    written = worth[..., : lines * width].unflatten(-1, (lines, width))
    columns = written.amax(-2).topk(count, dim=-1, sorted=False).indices
    line = torch.arange(0, lines * width, width, device=worth.device)
    left_over = torch.arange(lines * width, keys, device=worth.device)
    candidates = torch.cat(
        [
            (columns[..., None, :] + line[:, None]).flatten(-2),
            left_over.expand(*worth.shape[:-1], -1),
        ],
        -1,
    )
    weights, at = worth.gather(-1, candidates).topk(count, dim=-1)
    return weights, candidates.gather(-1, at)


def _lines(keys: int, count: int) -> int:
    """Lines that leave least to sort: torch's topk is quickest per number from 64 times `count` numbers on."""
    if count == 0:
        return 1
    return keys // (64 * count) if keys >= 64 * count else math.isqrt(keys // count)
