"""Attention within a band of keys around each query (sliding windows), linear in the length.

Blocks of queries become a batch, each with the keys it can reach: views into the padded sequence for one
sequence, and a copy of at most a few times the keys for a batch. Exact, forward and backward, without
compiling anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.rules import Window


@dataclass(frozen=True)
class Band:
    """How a sequence of `length` is cut: `count` blocks of `size` queries, `left` + 1 + `right` blocks of keys."""

    length: int
    size: int
    left: int
    right: int

    @property
    def count(self) -> int:
        """Number of blocks of queries."""
        return -(-self.length // self.size)

    @property
    def reach(self) -> int:
        """Number of keys each block of queries is given."""
        return (self.left + 1 + self.right) * self.size

    @property
    def tail(self) -> int:
        """Queries added to fill the last block."""
        return self.count * self.size - self.length


def chunked(
    q: Float[Tensor, "batch head length head_dim"],
    k: Float[Tensor, "batch kv_head length head_dim"],
    v: Float[Tensor, "batch kv_head length v_dim"],
    mask: Mask,
    dense: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Float[Tensor, "batch head length v_dim"]:
    """Attention under a mask with a finite band; `dense(q, k, v, allowed)` attends within the blocks."""
    back, ahead = mask.rule.band()
    if back is None or ahead is None:
        raise AssertionError("chunked attention needs a finite band")
    size = _block(back + ahead + 1)
    band = Band(q.shape[-2], size, -(-back // size), -(-ahead // size))
    batch = q.shape[0]
    blocks = F.pad(q, (0, 0, 0, band.tail)) if band.tail else q
    blocks = blocks.view(batch, q.shape[1], band.count, size, q.shape[-1])
    allowed = _allowed(mask, band, q.device)
    allowed = allowed.expand(batch, *allowed.shape[1:]).flatten(0, 1)
    z = dense(blocks.transpose(1, 2).flatten(0, 1), _near(k, band), _near(v, band), allowed)
    z = z.transpose(1, 2).reshape(batch, -1, z.shape[1], z.shape[-1])
    return z.transpose(1, 2)[:, :, : band.length]


def _block(width: int) -> int:
    """Queries per block for a band of `width` keys: a power of two above a quarter of it, 32 to 256."""
    return max(32, min(256, 1 << (width // 4).bit_length()))


def _allowed(
    mask: Mask, band: Band, device: torch.device
) -> Bool[Tensor, "#batch count #head size reach"]:
    """The mask of every block. A window looks the same in all of them; the rest is asked by position."""
    size, length = band.size, band.length
    first = torch.arange(band.count, device=device)[:, None, None] * size
    q_at = torch.arange(size, device=device)[:, None]
    k_at = torch.arange(band.reach, device=device) - band.left * size
    inside = (first + k_at >= 0) & (first + k_at < length)
    if isinstance(mask.rule, Window) and not mask.limits:
        seen = mask.see(q_at[None], k_at[None, None])
    else:
        seen = mask.bound(length, length, 0).see(first + q_at, first + k_at)
    seen = seen & inside
    if band.tail:  # rows that are cut off again must see something, or their softmax is NaN
        seen = seen | (first + q_at >= length)
    return seen.transpose(1, 2)


def _near(
    x: Float[Tensor, "batch head length dim"], band: Band
) -> Float[Tensor, "blocks head reach dim"]:
    near: Tensor = _Near.apply(x, band)  # type: ignore[no-untyped-call]
    return near


class _Near(torch.autograd.Function):
    """x -> for every block of queries the keys in its reach, [batch * count, head, reach, dim].

    The forward reads one padded copy. The backward adds the overlapping pieces up block by block:
    autograd's own backward of such a view would scatter element by element.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, band: Band) -> Tensor:
        ctx.band = band
        size = band.size
        padded = F.pad(x, (0, 0, band.left * size, band.right * size + band.tail))
        near = padded.unfold(2, band.reach, size).permute(0, 2, 1, 4, 3)
        return near.flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        band: Band = ctx.band
        pieces = band.left + 1 + band.right
        grad = grad.view(-1, band.count, grad.shape[1], pieces, band.size, grad.shape[-1])
        total = grad.new_zeros(
            grad.shape[0], grad.shape[2], band.count + pieces - 1, *grad.shape[4:]
        )
        for piece in range(pieces):
            total[:, :, piece : piece + band.count] += grad[:, :, :, piece].transpose(1, 2)
        start = band.left * band.size
        return total.flatten(2, 3)[:, :, start : start + band.length], None
