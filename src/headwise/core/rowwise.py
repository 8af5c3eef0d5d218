"""Statistics of each row of a pattern: entropy, distance, largest weight, probes, functions of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.scores import Scores, Tile
from headwise.core.sight import Sight
from headwise.core.streaming import Block, PatternFunction

__all__ = ["Functions", "Numbers", "Probes", "Rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """A block of query rows start..stop, and the keys they may see."""

    scores: Scores
    start: int
    stop: int
    sight: Sight

    @cached_property
    def query(self) -> Int[Tensor, " query"]:
        """Indices of the rows."""
        return torch.arange(self.start, self.stop, device=self.scores.q.device)

    @cached_property
    def key(self) -> Int[Tensor, " key"]:
        """Indices of the keys."""
        keys = self.sight.keys
        return torch.arange(keys.start, keys.stop, device=self.scores.q.device)

    @property
    def position(self) -> Int[Tensor, " query"]:
        """Positions of the rows."""
        return self.query + self.scores.query_offset

    def near(self, reach: int) -> slice:
        """The columns within `reach` positions of any of the rows."""
        first = self.start + self.scores.query_offset - self.sight.keys.start
        last, width = first + self.stop - self.start, len(self.key)
        low = min(width, max(0, first - reach))
        return slice(low, max(low, min(width, last + reach)))


class Numbers:
    """Entropy, mean distance, largest weight and number of visible keys of each row."""

    def __init__(self, scores: Scores) -> None:
        like = scores.q.new_empty(scores.shape[:3])
        self.entropy, self.distance, self.largest = (torch.empty_like(like) for _ in range(3))
        self.visible: list[Tensor] = []

    def enter(self, rows: Rows) -> None:
        """Keys before and after the block lie on one side of all its rows; those between do not.

        With c the first row's position, |q - k| = side * (q - c) + |k - c| for the former, so that two
        products with vectors hold their part of the distance, without losing digits far from the start.
        """
        dtype = self.entropy.dtype
        self.rows = slice(rows.start, rows.stop)
        self.visible.append(rows.sight.visible)
        first = rows.start + rows.scores.query_offset
        self.within = rows.near(0)
        self.side = (first - rows.key).sign().to(dtype)
        self.away = (first - rows.key).abs().to(dtype)
        self.side[self.within] = 0
        self.away[self.within] = 0
        self.ahead = (rows.position - first).to(dtype)
        self.between = (rows.position[:, None] - rows.key[self.within]).abs().to(dtype)

    def add(self, tile: Tile, heads: slice) -> None:
        """Uses the logits up."""
        pattern = tile.pattern
        flat = pattern.flatten(0, 2)
        side, away = ((flat @ by).view(pattern.shape[:3]) for by in (self.side, self.away))
        between = (pattern[..., self.within] * self.between).sum(-1)
        self.distance[:, heads, self.rows] = side * self.ahead + away + between
        self.largest[:, heads, self.rows] = tile.largest
        share = pattern.new_ones(()) if tile.share is None else tile.share[..., 0]
        ends = torch.special.xlogy(share, tile.largest)  # log of a weight = logit + log largest
        entropy = -tile.logits.mul_(pattern).sum(-1) - ends
        self.entropy[:, heads, self.rows] = entropy.clamp_min(0.0)

    def result(self) -> dict[str, Any]:
        """In float32."""
        rows = {name: getattr(self, name).float() for name in ("entropy", "distance", "largest")}
        return {**rows, "visible": torch.cat(self.visible, -1)}


class Probes:
    """The weight on the key that each probe names for each query."""

    def __init__(self, scores: Scores, probes: Int[Tensor, "#batch probe query"]) -> None:
        batch, heads, queries, _ = scores.shape
        self.probes = probes.to(scores.q.device)
        self.mass = scores.q.new_empty(batch, heads, probes.shape[1], queries)
        self.hits = torch.empty_like(self.mass, dtype=torch.bool)
        self.seen: list[Tensor] = []

    def enter(self, rows: Rows) -> None:
        """Looks up the columns of the named keys; keys that none of the rows sees have none."""
        self.rows = slice(rows.start, rows.stop)
        keys = rows.sight.keys
        named = self.probes[:, None, :, self.rows]
        self.inside = (named >= keys.start) & (named < keys.stop)
        self.at = (named - keys.start).where(self.inside, 0).transpose(2, 3)
        self.seen.append(_seen(rows.sight, self.inside, self.at))

    def add(self, tile: Tile, heads: slice) -> None:
        batch, some, queries, keys = tile.pattern.shape
        if not keys:
            self.mass[:, heads, :, self.rows] = 0
            self.hits[:, heads, :, self.rows] = False
            return
        at = self.at.expand(batch, some, queries, -1)
        mass = tile.pattern.gather(3, at).transpose(2, 3).where(self.inside, 0.0)
        self.mass[:, heads, :, self.rows] = mass
        self.hits[:, heads, :, self.rows] = (mass > 0) & (mass >= tile.largest[:, :, None])

    def result(self) -> dict[str, Any]:
        return {"mass": self.mass.float(), "hits": self.hits, "named_seen": _widest(self.seen)}


def _seen(sight: Sight, inside: Tensor, at: Tensor) -> Bool[Tensor, "_ _ probe query"]:
    """Which of the named keys their rows may see; `at` [batch, 1, query, probe] counts within the sight."""
    seen = inside
    for part, closed in sight.closed:
        here = at - part.start
        within = (here >= 0) & (here < closed.shape[3])
        shape = (max(closed.shape[0], at.shape[0]), closed.shape[1], *at.shape[2:])
        taken = closed.expand(shape[0], -1, -1, -1).gather(3, here.where(within, 0).expand(shape))
        seen = seen & ~(taken & within).transpose(2, 3)
    return seen


def _widest(parts: Sequence[Tensor]) -> Tensor:
    """Parts of rows after one another, whatever axes of size 1 each has."""
    batch, heads = (max(part.shape[axis] for part in parts) for axis in (0, 1))
    return torch.cat([part.expand(batch, heads, -1, -1) for part in parts], -1)


class Functions:
    """Functions of one's own; each tile holds all heads."""

    def __init__(self, scores: Scores, functions: Mapping[str, PatternFunction]) -> None:
        self.functions = functions
        self.own = {name: scores.q.new_empty(scores.shape[:3]) for name in functions}

    def enter(self, rows: Rows) -> None:
        self.rows = rows
        self.allowed = rows.scores.allowed(rows.start, rows.stop, rows.sight.keys)

    def add(self, tile: Tile, heads: slice) -> None:
        rows = self.rows
        block = Block(tile.pattern, self.allowed, rows.query, rows.key)
        for name, function in self.functions.items():
            self.own[name][:, heads, rows.start : rows.stop] = function(block)

    def result(self) -> dict[str, Any]:
        return {"own": {name: numbers.float() for name, numbers in self.own.items()}}
