"""Limits: padding and document borders, which hold whatever else is or-ed in or inverted.

A limit answers the same question as a rule (`rules`), but a mask only ever adds limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from headwise.core.rules import Extent, common
from headwise.names import MaskError


@dataclass(frozen=True, eq=False)
class Lengths:
    """Of sequence b only the first `lengths[b]` positions are real (padding on the right)."""

    lengths: Tensor

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return k < self.lengths.to(k.device).view(-1, 1, *([1] * k.dim()))

    def bound(self, query_len: int, key_len: int, offset: int) -> Lengths:
        return self

    def extent(self) -> Extent:
        return self.lengths.numel(), 1

    def describe(self) -> str:
        return f"padding(lengths={self.lengths.tolist()})"


@dataclass(frozen=True, eq=False)
class Real:
    """Keys that are no padding; `real` is bool `[batch, key]`."""

    real: Tensor

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        real, known = _at(self.real, k)
        return (real & known)[:, None]

    def bound(self, query_len: int, key_len: int, offset: int) -> Real:
        if self.real.shape[-1] < key_len:
            raise MaskError(
                f"the key_padding_mask covers {self.real.shape[-1]} keys, attention has {key_len}; "
                "with a cache, pass the mask of the cached and the new tokens together"
            )
        return self

    def extent(self) -> Extent:
        return self.real.shape[0], 1

    def describe(self) -> str:
        return f"padding(key_padding_mask=bool{list(self.real.shape)})"


@dataclass(frozen=True, eq=False)
class SameDocument:
    """Query and key carry the same document number; `ids` int `[batch or 1, position]`.

    `query_ids` numbers the queries apart, for cross-attention between two packed sequences; its first
    number is that of the query at `start`.
    """

    ids: Tensor
    query_ids: Tensor | None = None
    start: int = 0

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        of_queries = self.ids if self.query_ids is None else self.query_ids
        of_query, q_known = _at(of_queries, q - self.start)
        of_key, k_known = _at(self.ids, k)
        return ((of_query == of_key) & q_known & k_known)[:, None]

    def bound(self, query_len: int, key_len: int, offset: int) -> SameDocument:
        if self.ids.shape[-1] < key_len:
            raise MaskError(
                f"documents(ids) covers {self.ids.shape[-1]} keys, attention has {key_len}; "
                "with a cache, pass the ids of the cached and the new tokens together"
            )
        own = self.query_ids is not None
        rows = (self.ids if self.query_ids is None else self.query_ids).shape[-1]
        if own and rows == query_len:
            return replace(self, start=offset)
        if rows < offset + query_len:
            raise MaskError(
                f"documents({'query_ids' if own else 'ids'}) covers {rows} queries, attention has "
                f"{query_len} from position {offset}; pass query_ids=, one number per query"
            )
        return replace(self, start=0)

    def extent(self) -> Extent:
        parts = [self.ids] if self.query_ids is None else [self.ids, self.query_ids]
        return common((part.shape[0], 1) for part in parts)

    def describe(self) -> str:
        return f"documents(ids{list(self.ids.shape)})"


Limit = Lengths | Real | SameDocument


def _at(values: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """values at the positions `at`, `[batch or 1, *at]`, and which of these positions they cover."""
    width = values.shape[-1]
    return values.to(at.device)[:, at.clamp(0, width - 1)], (at >= 0) & (at < width)
