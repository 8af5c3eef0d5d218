"""Scores and pattern of one attention call, computed on demand and block by block.

`Scores` keeps what a pattern is made of (queries, keys, mask, scale, ...), which is O(n) in the length, and
gives any rows of any heads when asked. Every explicit softmax of headwise is the one in `Scores.rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.sight import Sight, heads_of, sight_of

BLOCK_CELLS = 1 << 20
"""How many cells of patterns a block may hold: 4 MiB in float32, which stays near the processor."""


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of some heads of a pattern, over the keys that were asked about.

    Attributes:
        pattern: the rows.
        logits: their scores less the largest of each row; large negative numbers where a key is not seen.
        share: what the row sums to, where that is not 1: less with a sink, 0 where it may see nothing.
    """

    pattern: Float[Tensor, "batch head query key"]
    logits: Float[Tensor, "batch head query key"]
    share: Float[Tensor, "#batch #head query 1"] | None = None

    @cached_property
    def largest(self) -> Float[Tensor, "batch head query"]:
        """The largest weight of each row."""
        return largest(self.pattern)[..., 0]


@dataclass(frozen=True, eq=False)
class Scores:
    """What one attention call looks at, without its values.

    scores = softcap(scale * q k^T) + bias where the mask allows, -inf elsewhere; pattern = softmax(scores),
    with the sink logit of each head as one more key that is then dropped (GPT-OSS). A row that may see
    nothing has pattern 0. Computed in float32 at least.
    """

    q: Float[Tensor, "batch head query head_dim"]
    k: Float[Tensor, "batch kv_head key head_dim"]
    mask: Mask | None
    scale: float
    bias: Float[Tensor, "#batch #head #query key"] | None = None
    softcap: float | None = None
    sink: Float[Tensor, " head"] | None = None
    query_offset: int = 0

    @property
    def call(self) -> dict[str, Any]:
        """The arguments of `attend` that make this call, all but the values."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the pattern: batch, head, query, key."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[-2]

    def allowed(
        self, start: int, stop: int, keys: slice | None = None
    ) -> Bool[Tensor, "#batch #head query key"] | None:
        """The mask's rows start..stop, for all keys or a slice; None where everything may be seen."""
        if self.mask is None:
            return None
        queries, num_keys = self.shape[2:]
        low, high, _ = (keys or slice(None)).indices(num_keys)
        q = torch.arange(start, stop, device=self.q.device)[:, None] + self.query_offset
        k = torch.arange(low, high, device=self.q.device)[None, :]
        return self.mask.bound(queries, num_keys, self.query_offset).see(q, k)

    def reach(self, start: int, stop: int) -> slice:
        """The keys that query rows start..stop may see at most, as the mask's band says."""
        keys = self.shape[3]
        back, ahead = (None, None) if self.mask is None else self.mask.rule.band()
        low = 0 if back is None else max(0, min(keys - 1, start + self.query_offset - back))
        high = keys if ahead is None else min(keys, stop + self.query_offset + ahead)
        return slice(low, max(high, low + 1))

    def sight(self, start: int, stop: int, keys: slice | None = None) -> Sight:
        """Which keys (of all, or of a slice of them) each of the query rows start..stop may see."""
        low, high, _ = (keys or slice(None)).indices(self.shape[3])
        rows = range(start + self.query_offset, stop + self.query_offset)
        ask = partial(self.allowed, start, stop)
        return sight_of(self.mask, rows, slice(low, high), ask, self.q.device)

    def rows(
        self,
        start: int = 0,
        stop: int | None = None,
        heads: slice | None = None,
        keys: slice | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """The pattern of query rows start..stop, of all heads or of a slice of them.

        `keys` leaves out keys that none of the rows sees (`reach`), which changes no weight.
        """
        stop = self.shape[2] if stop is None else stop
        return self.tile(start, stop, self.sight(start, stop, keys), heads).pattern

    def tile(self, start: int, stop: int, sight: Sight, heads: slice | None = None) -> Tile:
        """Query rows start..stop of the pattern, of all heads or of a slice, over the keys of their sight.

        A row that may see nothing, by the mask or a bias of -inf, is 0.
        """
        first, last, _ = (heads or slice(None)).indices(self.shape[1])
        heads = slice(first, last)
        logits = self._logits(start, stop, heads, sight.keys)
        for part, closed in sight.closed:
            logits[..., part].masked_fill_(heads_of(closed, heads), float("-inf"))
        blind = None if sight.blind is None else heads_of(sight.blind, heads)
        peak = largest(logits.detach())
        if self.bias is not None:
            blind = peak.isneginf()
        if blind is not None:
            peak = peak.masked_fill(blind, 0.0)
        logits = logits.sub_(peak)
        lowest = (
            torch.finfo(logits.dtype).min / 2
        )  # and not -inf, which times a weight of 0 is no number
        if self.bias is not None:
            logits = logits.clamp_min(lowest)
        else:
            for part, closed in sight.closed:
                logits[..., part].masked_fill_(heads_of(closed, heads), lowest)
        sink = None if self.sink is None else self.sink[heads, None, None].to(logits.dtype) - peak
        return _softmax(logits, blind, sink)

    def _logits(self, start: int, stop: int, heads: slice, keys: slice) -> Tensor:
        """Scores of some rows, heads and keys, as if every key were seen; its memory is the caller's."""
        dtype = torch.promote_types(self.q.dtype, torch.float32)
        q = self.q[:, heads, start:stop].to(dtype) * self.scale
        scores = _per_group(q, self.k[:, :, keys].to(dtype), heads.start, self.shape[1])
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            bias = self.bias[:, :, start:stop] if self.bias.shape[2] > 1 else self.bias
            scores = scores + heads_of(bias, heads)[..., keys].to(dtype)
        return scores

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Row ranges that cover all queries, each of at most BLOCK_CELLS cells over all heads (or of one row)."""
        batch, heads, queries, keys = self.shape
        size = max(1, min(queries, BLOCK_CELLS // max(1, batch * heads * keys)))
        for start in range(0, max(1, queries), size):  # one empty range where there is no query
            yield start, min(start + size, queries)


def mix(
    pattern: Float[Tensor, "batch head query key"], v: Float[Tensor, "batch kv_head key v_dim"]
) -> Float[Tensor, "batch head query v_dim"]:
    """pattern @ v for grouped values: each KV head serves num_heads / num_kv_heads query heads in a row."""
    batch, heads, queries, keys = pattern.shape
    groups = v.shape[1]
    grouped = pattern.view(batch, groups, heads // groups * queries, keys) @ v
    return grouped.view(batch, heads, queries, v.shape[-1])


def largest(x: Float[Tensor, "*row key"]) -> Float[Tensor, "*row 1"]:
    """The largest number of each row; 0 where there are no keys."""
    return x.amax(-1, keepdim=True) if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)


def _per_group(q: Tensor, k: Tensor, first: int, num_heads: int) -> Tensor:
    """q k^T where a run of query heads shares a KV head; q holds the heads from `first` on."""
    batch, heads, queries, dim = q.shape
    per_group = num_heads // k.shape[1]
    if first % per_group or heads % per_group:
        group = torch.arange(first, first + heads, device=q.device) // per_group
        return q @ k[:, group].transpose(-1, -2)
    k = k[:, first // per_group : (first + heads) // per_group].transpose(-1, -2)
    grouped = q.reshape(batch, k.shape[1], per_group * queries, dim) @ k
    return grouped.view(batch, heads, queries, k.shape[-1])


def _softmax(logits: Tensor, blind: Tensor | None, sink: Tensor | None) -> Tile:
    """The pattern; a sink takes its share of each row, and blind rows have none."""
    pattern = logits.softmax(-1)
    if sink is None and blind is None:
        return Tile(pattern, logits)
    if sink is None:
        share = pattern.new_ones(())
    else:
        share = (logits.logsumexp(-1, keepdim=True) - sink).sigmoid()
    if blind is not None:
        share = share.where(~blind, 0.0)
    return Tile(pattern * share, logits, share)


def open_rows(scores: Tensor, blind: Tensor | None) -> tuple[Tensor, Tensor]:
    """The scores with rows that are all -inf set to 0, and these rows added to the blind ones."""
    closed = scores.isneginf().all(-1, keepdim=True)
    return scores.masked_fill(closed, 0.0), closed if blind is None else blind | closed
