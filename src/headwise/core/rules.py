"""Rules: which query position may see which key position. The leaves of the mask algebra.

Every rule answers one question, `see(q, k)`: for broadcastable tensors of query and key positions, a bool
tensor `[batch or 1, head or 1, *positions]`, True = may attend. That is all the dense form, the block form
and the chunked form of a mask need. `masks` puts rules together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from headwise.names import MaskError

Band = tuple[int | None, int | None]
"""How many keys back (self excluded) and ahead a query can see at most; None = any number."""

ANYWHERE: Band = (None, None)

Extent = tuple[int, int]
"""How many sequences and heads a rule tells apart; 1 = it is the same for all."""


@runtime_checkable
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

    def extent(self) -> Extent:
        """How many sequences and heads the rule tells apart."""
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

    def extent(self) -> Extent:
        return 1, 1

    def describe(self) -> str:
        return "full()"


@dataclass(frozen=True, eq=False)
class Window:
    """Keys from `back` before the query to `ahead` after it, the query's own position included.

    Causal attention is the window that is unbounded backwards and 0 ahead.
    """

    back: int | None
    ahead: int

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        distance = q - k
        seen = distance >= -self.ahead
        if self.back is not None:
            seen = seen & (distance <= self.back)
        return seen[None, None]

    def band(self) -> Band:
        return self.back, self.ahead

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return self

    def extent(self) -> Extent:
        return 1, 1

    def describe(self) -> str:
        if self.ahead == 0:
            return "causal()" if self.back is None else f"window({self.back + 1})"
        if self.back is None:
            return f"(causal() | window(1, ahead={self.ahead}))"
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

    def extent(self) -> Extent:
        return 1 if isinstance(self.length, int) else self.length.numel(), 1

    def describe(self) -> str:
        return f"prefix({self.length if isinstance(self.length, int) else self.length.tolist()})"


@dataclass(frozen=True, eq=False)
class Given:
    """A boolean tensor `[batch or 1, head or 1, query, key]`; its first row is the query at `start`."""

    allowed: Tensor
    start: int = 0

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        rows, columns = self.allowed.shape[-2:]
        q = q - self.start
        whole = q.shape == (rows, 1) and k.shape == (1, columns)
        if whole and not torch.compiler.is_compiling() and _counted(q) and _counted(k):
            return self.allowed.to(k.device)
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

    def extent(self) -> Extent:
        return self.allowed.shape[0], self.allowed.shape[1]

    def describe(self) -> str:
        return f"tensor(bool{list(self.allowed.shape)})"


@dataclass(frozen=True, eq=False)
class Both:
    """Both rules must allow it."""

    left: Rule
    right: Rule

    def see(self, q: Tensor, k: Tensor) -> Tensor:
        return self.left.see(q, k) & self.right.see(q, k)

    def band(self) -> Band:
        (b1, a1), (b2, a2) = self.left.band(), self.right.band()
        return least(b1, b2), least(a1, a2)

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return Both(
            self.left.bound(query_len, key_len, offset),
            self.right.bound(query_len, key_len, offset),
        )

    def extent(self) -> Extent:
        return common([self.left.extent(), self.right.extent()])

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
        return most(b1, b2), most(a1, a2)

    def bound(self, query_len: int, key_len: int, offset: int) -> Rule:
        return Either(
            self.left.bound(query_len, key_len, offset),
            self.right.bound(query_len, key_len, offset),
        )

    def extent(self) -> Extent:
        return common([self.left.extent(), self.right.extent()])

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

    def extent(self) -> Extent:
        return self.rule.extent()

    def describe(self) -> str:
        return f"~{self.rule.describe()}"


def common(extents: Iterable[Extent]) -> Extent:
    """The extent of rules put together.

    Raises:
        MaskError: one tells apart another number of sequences or heads than the next.
    """
    batch, heads = 1, 1
    for sequences, of_heads in extents:
        batch = _agreed(batch, sequences, "sequences")
        heads = _agreed(heads, of_heads, "heads")
    return batch, heads


def _agreed(a: int, b: int, what: str) -> int:
    if a != b and 1 not in (a, b):
        raise MaskError(
            f"masks of {a} and of {b} {what} do not go together; make both for the same batch, "
            "or for one"
        )
    return b if a == 1 else a


def least(a: int | None, b: int | None) -> int | None:
    """The smaller reach; None = unbounded."""
    return b if a is None else a if b is None else min(a, b)


def most(a: int | None, b: int | None) -> int | None:
    """The larger reach; None = unbounded."""
    return None if a is None or b is None else max(a, b)


def _counted(x: Tensor) -> bool:
    """Whether it counts from 0 on."""
    return torch.equal(x.flatten(), torch.arange(x.numel(), device=x.device, dtype=x.dtype))
