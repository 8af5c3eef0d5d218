"""The KV cache: keys and values of the tokens already read, for decoding step by step.

Buffers are made at a layer's first step, in that step's dtype, device and number of heads, and
filled in place from the left. Use it under torch.no_grad(): a backward pass through earlier steps
is not covered.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.names import ShapeError

__all__ = ["KVCache", "LayerCache"]

HeadStates = Float[Tensor, "batch kv_head key head_dim"]
ValueStates = Float[Tensor, "batch kv_head key v_dim"]


class LayerCache:
    """Keys and values of one attention layer, room for `max_length` tokens."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    def append(
        self,
        k: Float[Tensor, "batch kv_head new head_dim"],
        v: Float[Tensor, "batch kv_head new v_dim"],
    ) -> tuple[HeadStates, ValueStates]:
        """Store the new tokens' keys and values; returns all stored so far, the new ones last.

        Raises:
            ShapeError: no room left, or another batch or number of heads than before.
        """
        end = self.length + k.shape[2]
        if end > self.max_length:
            raise ShapeError(
                f"the cache has room for {self.max_length} tokens, holds {self.length} and got "
                f"{k.shape[2]} more; make it with max_length={end} or more"
            )
        if self._k is None or self._v is None:
            self._k = k.new_zeros(*k.shape[:2], self.max_length, k.shape[3])
            self._v = v.new_zeros(*v.shape[:2], self.max_length, v.shape[3])
        self._check(k)
        self._k[:, :, self.length : end] = k
        self._v[:, :, self.length : end] = v
        self.length = end
        return self._k[:, :, :end], self._v[:, :, :end]

    def held(self) -> tuple[HeadStates, ValueStates] | None:
        """Everything stored so far, None if nothing is."""
        if self._k is None or self._v is None:
            return None
        return self._k[:, :, : self.length], self._v[:, :, : self.length]

    def keep(self, k: HeadStates, v: ValueStates) -> None:
        """Hold k and v as they are (the memory of cross-attention, which does not grow)."""
        self._k, self._v, self.length = k, v, k.shape[2]

    def _check(self, k: HeadStates) -> None:
        assert self._k is not None
        if k.shape[:2] != self._k.shape[:2]:
            raise ShapeError(
                f"the cache holds [batch, kv_heads]={list(self._k.shape[:2])}, "
                f"the new tokens are {list(k.shape[:2])}; make one cache per batch"
            )


class KVCache:
    """The cache of a whole decoder.

    Args:
        num_layers: number of decoder blocks.
        max_length: tokens it has room for, padding included.

    It also holds which stored tokens were padding, so a batch of unequal lengths, padded on the
    left or on the right, decodes as each sequence would alone.
    """

    def __init__(self, num_layers: int, max_length: int) -> None:
        self.max_length = max_length
        self.length = 0
        self.layers = tuple(LayerCache(max_length) for _ in range(num_layers))
        self.cross_layers = tuple(LayerCache(max_length) for _ in range(num_layers))
        self.key_padding_mask: Bool[Tensor, "batch key"] | None = None

    def extend(
        self, batch: int, query_len: int, key_padding_mask: Bool[Tensor, "batch query"] | None
    ) -> Bool[Tensor, "batch key"] | None:
        """Count `query_len` new tokens in; returns the padding of all tokens, None for none."""
        old, new = self.key_padding_mask, key_padding_mask
        if (old is not None or new is not None) and self.length:
            old = _none_padded(batch, self.length, new) if old is None else old
            new = _none_padded(batch, query_len, old) if new is None else new
            new = torch.cat((old, new), dim=-1)
        self.length += query_len
        self.key_padding_mask = new
        return new


def _none_padded(batch: int, length: int, like: Tensor | None) -> Bool[Tensor, "batch length"]:
    device = None if like is None else like.device
    return torch.zeros(batch, length, dtype=torch.bool, device=device)
