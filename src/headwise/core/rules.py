"""Rules: which query position may see which key position. The leaves of the mask algebra.

Every rule answers one question, `see(q, k)`: for broadcastable tensors of query and key positions, a bool
tensor `[batch or 1, head or 1, *positions]`, True = may attend. That is all the dense form, the block form
and the chunked form of a mask need. `masks` puts rules together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from headwise.names import MaskError

Band = tuple[int | None, int | None]
"""How many keys back (self excluded) and ahead a query can see at most; None = any number."""

ANYWHERE: Band = (None, None)


class Rule(Protocol):
    """What every rule offers."""

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        """Bool [batch or 1, head or 1, *broadcast(q, k)]: may the query at q see the key at k."""
        ...

    def band(self) -> Band:
        """The farthest keys back and ahead that any query may see."""
        ...

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        """The rule for one call, checked against its lengths (MaskError where a tensor is too short)."""
        ...

    def describe(self) -> str:
        """The rule as one would type it."""
        ...


@dataclass(frozen=True, eq=False)
class Full:
    """Every query sees every key."""

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.ones((), dtype=torch.bool, device=k.device).expand(
            1, 1, *torch.broadcast_shapes(q.shape, k.shape)
        )

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return self

    def describe(self) -> str:
        return "full()"


@dataclass(frozen=True, eq=False)
class Window:
    """Keys from `back` before the query to `ahead` after it, the query's own position included.

    Causal attention is the window that is unbounded backwards and 0 ahead.
    """

    back: int | None
    ahead: int | None

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        distance = q - k
        if self.ahead == 0:
            seen = distance >= 0
        elif self.ahead is not None:
            seen = distance >= -self.ahead
        else:
            seen = torch.ones_like(distance, dtype=torch.bool)
        if self.back is not None:
            seen = seen & (distance <= self.back)
        return seen[None, None]

    def band(self) -> Band:
        return self.back, self.ahead

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return self

    def describe(self) -> str:
        if self.ahead == 0:
            return "causal()" if self.back is None else f"window({self.back + 1})"
        if self.back is None:
            return "full()" if self.ahead is None else f"(causal() | window(1, ahead={self.ahead}))"
        return f"window({self.back + 1}, ahead={self.ahead})"


@dataclass(frozen=True, eq=False)
class Prefix:
    """Keys at positions below `length` (an int, or one per sequence `[batch]`)."""

    length: int | Tensor

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        if isinstance(self.length, int):
            return (k < self.length)[None, None] & Full().see(q, k)
        length = self.length.to(k.device).view(-1, 1, *([1] * k.dim()))
        return (k < length) & Full().see(q, k)

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return self

    def describe(self) -> str:
        return f"prefix({self.length if isinstance(self.length, int) else self.length.tolist()})"


@dataclass(frozen=True, eq=False)
class Given:
    """A boolean tensor `[batch or 1, head or 1, query, key]` ; its first row is the query at `start`."""

    allowed: Tensor
    start: int = 0

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        rows, columns = self.allowed.shape[-2:]
        q = q - self.start
        inside = (q >= 0) & (q < rows) & (k >= 0) & (k < columns)
        return (
            self.allowed.to(k.device)[:, :, q.clamp(0, rows - 1), k.clamp(0, columns - 1)] & inside
        )

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Given:
        rows, columns = self.allowed.shape[-2:]
        if (
            columns < key_len
            or rows < query_len
            or (rows > query_len and rows < offset + query_len)
        ):
            raise MaskError(
                f"the mask tensor is [query={rows}, key={columns}], attention is [query={query_len}, "
                f"key={key_len}] from position {offset}; pass one that covers it, or for padding "
                "masks.padding(key_padding_mask=...)"
            )
        return replace(self, start=offset if rows == query_len else 0)

    def describe(self) -> str:
        return f"tensor({list(self.allowed.shape)})"


@dataclass(frozen=True, eq=False)
class Both:
    """Both rules must allow it."""

    left: Rule
    right: Rule

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return self.left.see(q, k) & self.right.see(q, k)

    def band(self) -> Band:
        (b1, a1), (b2, a2) = self.left.band(), self.right.band()
        return _least(b1, b2), _least(a1, a2)

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return Both(
            self.left.bound(query_len, key_len, offset),
            self.right.bound(query_len, key_len, offset),
        )

    def describe(self) -> str:
        return f"({self.left.describe()} & {self.right.describe()})"


@dataclass(frozen=True, eq=False)
class Either:
    """One of the rules must allow it."""

    left: Rule
    right: Rule

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return self.left.see(q, k) | self.right.see(q, k)

    def band(self) -> Band:
        (b1, a1), (b2, a2) = self.left.band(), self.right.band()
        return _most(b1, b2), _most(a1, a2)

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return Either(
            self.left.bound(query_len, key_len, offset),
            self.right.bound(query_len, key_len, offset),
        )

    def describe(self) -> str:
        return f"({self.left.describe()} | {self.right.describe()})"


@dataclass(frozen=True, eq=False)
class Other:
    """What the rule forbids."""

    rule: Rule

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return ~self.rule.see(q, k)

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Other:
        return Other(self.rule.bound(query_len, key_len, offset))

    def describe(self) -> str:
        return f"~{self.rule.describe()}"


@dataclass(frozen=True, eq=False)
class Lengths:
    """Limit: of sequence b only the first `lengths[b]` positions are real (padding on the right)."""

    lengths: Tensor

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return k < self.lengths.to(k.device).view(-1, 1, *([1] * k.dim()))

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Lengths:
        return self

    def describe(self) -> str:
        return f"padding(lengths={self.lengths.tolist()})"


@dataclass(frozen=True, eq=False)
class Real:
    """Limit: keys that are no padding; `real` is bool `[batch, key]`."""

    real: Tensor

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        width = self.real.shape[-1]
        inside = (k >= 0) & (k < width)
        return (self.real.to(k.device)[:, k.clamp(0, width - 1)] & inside)[:, None]

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> Real:
        if self.real.shape[-1] < key_len:
            raise MaskError(
                f"the key_padding_mask covers {self.real.shape[-1]} keys, attention has {key_len}; "
                "with a cache, pass the mask of the cached and the new tokens together"
            )
        return self

    def describe(self) -> str:
        return f"padding(key_padding_mask={list(self.real.shape)})"


@dataclass(frozen=True, eq=False)
class SameDocument:
    """Limit: query and key carry the same document number; `ids` int `[batch or 1, position]`.

    `query_ids` numbers the queries apart, for cross-attention between two packed sequences.
    """

    ids: Tensor
    query_ids: Tensor | None = None

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        ids, query_ids = (
            self.ids.to(k.device),
            self.ids if self.query_ids is None else self.query_ids,
        )
        inside = (k >= 0) & (k < ids.shape[-1]) & (q >= 0) & (q < query_ids.shape[-1])
        of_query = query_ids.to(k.device)[:, q.clamp(0, query_ids.shape[-1] - 1)]
        return ((of_query == ids[:, k.clamp(0, ids.shape[-1] - 1)]) & inside)[:, None]

    def band(self) -> Band:
        return ANYWHERE

    def bound(self, query_len: int, key_len: int, offset: int) -> SameDocument:
        if self.ids.shape[-1] < key_len:
            raise MaskError(
                f"documents(ids) covers {self.ids.shape[-1]} keys, attention has {key_len}; "
                "with a cache, pass the ids of the cached and the new tokens together"
            )
        return self

    def describe(self) -> str:
        return f"documents({list(self.ids.shape)})"


Limit = Lengths | Real | SameDocument
"""Rules that hold whatever else is or-ed in or inverted: padding and document borders."""


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
