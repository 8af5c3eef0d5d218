"""Scores and pattern of one attention call, computed on demand and block by block.

`Scores` keeps what a pattern is made of (queries, keys, mask, scale, ...), which is O(n) in the length, and
gives any rows of any heads when asked. Every explicit softmax of headwise is the one in `Scores.rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.masks import Mask

BLOCK_CELLS = 1 << 20
"""How many cells of patterns a block may hold: 4 MiB in float32, which stays near the processor."""


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
        _, num_heads, queries, num_keys = self.shape
        stop = queries if stop is None else stop
        first, last, _ = (heads or slice(None)).indices(num_heads)
        low, high, _ = (keys or slice(None)).indices(num_keys)
        dtype = torch.promote_types(self.q.dtype, torch.float32)
        q = self.q[:, first:last, start:stop].to(dtype) * self.scale
        scores = _per_group(q, self.k[:, :, low:high].to(dtype), first, num_heads)
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + _part(self.bias, first, last, start, stop)[..., low:high].to(dtype)
        allowed = self.allowed(start, stop, keys)
        if allowed is not None:
            allowed = _part(allowed, first, last, 0, stop - start)
        sink = None if self.sink is None else self.sink[first:last].to(dtype)
        return _softmax(scores, allowed, sink, biased=self.bias is not None)

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


def _per_group(q: Tensor, k: Tensor, first: int, num_heads: int) -> Tensor:
    """q k^T where a run of query heads shares a KV head; q holds the heads from `first` on."""
    batch, heads, queries, dim = q.shape
    per_group = num_heads // k.shape[1]
    if per_group == 1:
        return q @ k[:, first : first + heads].transpose(-1, -2)
    if heads == num_heads:
        grouped = q.reshape(batch, k.shape[1], per_group * queries, dim) @ k.transpose(-1, -2)
        return grouped.view(batch, heads, queries, k.shape[-2])
    group = torch.arange(first, first + heads, device=q.device) // per_group
    return q @ k[:, group].transpose(-1, -2)


def _part(x: Tensor, first: int, last: int, start: int, stop: int) -> Tensor:
    """x[:, first:last, start:stop], axes of size 1 left to broadcast."""
    x = x[:, first:last] if x.shape[1] > 1 else x
    return x[:, :, start:stop] if x.shape[2] > 1 else x


def _softmax(
    scores: Tensor, allowed: Tensor | None, sink: Tensor | None, *, biased: bool
) -> Tensor:
    """The softmax of the allowed scores; a row without any, by the mask or a bias of -inf, is 0."""
    blind = None
    if allowed is not None:
        blind = ~allowed.any(-1, keepdim=True)
        scores = scores.masked_fill(~(allowed | blind), float("-inf"))
    if biased:
        scores, blind = open_rows(scores, blind)
    if sink is None:
        pattern = scores.softmax(-1)
    else:
        column = sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        pattern = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    return pattern if blind is None else pattern.masked_fill(blind, 0.0)


def open_rows(scores: Tensor, blind: Tensor | None) -> tuple[Tensor, Tensor]:
    """The scores with rows that are all -inf set to 0, and these rows added to the blind ones."""
    closed = scores.isneginf().all(-1, keepdim=True)
    return scores.masked_fill(closed, 0.0), closed if blind is None else blind | closed
