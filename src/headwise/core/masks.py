"""Masks: the algebra of who may attend. True = may attend, everywhere.

    mask = masks.causal() & masks.padding(lengths=[5, 3])
    mask.dense(query_len=5, key_len=5)        # bool [2, 1, 5, 5]

A mask is a rule over positions (causal, window, prefix, any boolean tensor) and a set of limits (padding,
document borders). `&`, `|` and `~` act on the rules; limits are only ever added, so padding stays hidden
whatever else is or-ed in. Causality goes by position: query i of a call sits at `query_offset + i`, by
default so that the last query sits at the last key, and a cached step, a chunk and the full pass agree.

`reach` says whose input can be in whose output after some layers of masks, and `read` reads a mask written as text.

Not covered: additive score biases (ALiBi, T5): they are `bias` in `attend`, not masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.given import count, require_bool, require_mask, whole_numbers
from headwise.core.limits import Lengths, Limit, Real, SameDocument
from headwise.core.rules import (
    ANYWHERE,
    Both,
    Either,
    Full,
    Given,
    Other,
    Prefix,
    Rule,
    Window,
    common,
    least,
    most,
)
from headwise.names import MaskError

if TYPE_CHECKING:
    from headwise.core.notation import read as read
    from headwise.core.reach import Reach as Reach
    from headwise.core.reaching import reach as reach

__all__ = [
    "Mask",
    "Reach",
    "causal",
    "documents",
    "full",
    "padding",
    "prefix",
    "reach",
    "read",
    "tensor",
    "window",
]

_ON_MASKS = {"Reach": "reach", "reach": "reaching", "read": "notation"}
"""What is made of masks and lies beside them, by its module."""

Form = Literal["full", "causal", "chunked", "dense"]


def __getattr__(name: str) -> Any:
    if name not in _ON_MASKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headwise.core.{_ON_MASKS[name]}"), name)


@dataclass(frozen=True, eq=False)
class Mask:
    """A rule over positions and the limits that hold whatever else is or-ed in. Made by the functions below."""

    rule: Rule
    limits: tuple[Limit, ...] = ()

    def __and__(self, other: Mask) -> Mask:
        require_mask(other, Mask, "&")
        return Mask(_both(self.rule, other.rule), _joined(self.limits, other.limits))

    def __or__(self, other: Mask) -> Mask:
        require_mask(other, Mask, "|")
        return Mask(_either(self.rule, other.rule), _joined(self.limits, other.limits))

    def __invert__(self) -> Mask:
        if self.limits and isinstance(self.rule, Full):
            raise MaskError(
                f"~{self} would show what it must hide: padding and document borders hold always; "
                "invert the rule before adding the limit, as in ~window(4) & padding(...)"
            )
        rule = self.rule.rule if isinstance(self.rule, Other) else Other(self.rule)
        return Mask(rule, self.limits)

    def __repr__(self) -> str:
        parts = [] if isinstance(self.rule, Full) and self.limits else [self.rule.describe()]
        return " & ".join(parts + [limit.describe() for limit in self.limits])

    def __bool__(self) -> bool:
        raise MaskError(
            "a mask is neither true nor false; combine masks with & | ~, not and, or, not"
        )

    def dense(
        self,
        query_len: int,
        key_len: int,
        query_offset: int | None = None,
        device: torch.device | str | None = None,
    ) -> Bool[Tensor, "batch head query key"]:
        """The mask as a tensor; batch and head are 1 where the mask does not tell them apart.

        Args:
            query_len: number of queries.
            key_len: number of keys.
            query_offset: position of the first query; None puts the last query at the last key.
            device: where to make it.

        Raises:
            MaskError: the mask carries a tensor too short for this many queries or keys, or tensors for
                different numbers of sequences or heads.
        """
        self.extent()
        if query_len < 0 or key_len < 0:
            raise MaskError(
                f"lengths must be at least 0, came query_len={query_len}, key_len={key_len}"
            )
        offset = key_len - query_len if query_offset is None else query_offset
        q, k = positions(query_len, key_len, offset, device)
        return self.bound(query_len, key_len, offset).see(q, k)

    def bound(self, query_len: int, key_len: int, offset: int) -> Mask:
        """The mask for one call whose first query sits at `offset`, checked against its lengths."""
        limits = tuple(limit.bound(query_len, key_len, offset) for limit in self.limits)
        return Mask(self.rule.bound(query_len, key_len, offset), limits)

    def see(self, q: Tensor, k: Tensor) -> Bool[Tensor, "batch head *positions"]:
        """May the query at position q see the key at position k, for broadcastable positions."""
        seen = self.rule.see(q, k)
        for limit in self.limits:
            seen = seen & limit.see(q, k)
        return seen

    def extent(self) -> tuple[int, int]:
        """How many sequences and heads the mask tells apart; 1 = it is the same for all."""
        return common([self.rule.extent(), *(limit.extent() for limit in self.limits)])

    def sees_itself(self, query_len: int, key_len: int, query_offset: int) -> bool:
        """Whether every query surely sees its own position, so that no row is without keys."""
        if self.limits or not isinstance(self.rule, Window | Full):
            return False
        return query_offset >= 0 and query_offset + query_len <= key_len

    def form(self, query_len: int, key_len: int, query_offset: int | None = None) -> Form:
        """The cheapest exact form for fused attention.

        "full" (no mask at all), "causal" (the kernel's own triangle), "chunked" (a band of keys near each
        query, linear in length) or "dense".
        """
        offset = key_len - query_len if query_offset is None else query_offset
        back, ahead = self.rule.band()
        if not self.limits and isinstance(self.rule, Full):
            return "full"
        if _is_symbol(key_len) and (back, ahead) not in (ANYWHERE, (None, 0)):
            return "dense"
        if not self.limits and isinstance(self.rule, Window):
            sees_all_back = back is None or back >= offset + query_len - 1
            sees_all_ahead = self.rule.ahead >= key_len - 1 - offset
            if sees_all_back and sees_all_ahead:
                return "full"
            if sees_all_back and ahead == 0 and offset == 0 and query_len == key_len:
                return "causal"
        if back is None or ahead is None or offset != 0 or query_len != key_len:
            return "dense"
        return "chunked" if 4 * (back + ahead + 1) <= key_len else "dense"


def full() -> Mask:
    """Every query may attend to every key."""
    return Mask(Full())


def causal() -> Mask:
    """Each query may attend to keys at its own position and before."""
    return Mask(Window(None, 0))


def window(n: SupportsIndex, ahead: SupportsIndex = 0) -> Mask:
    """Each query may attend to the last `n` keys, itself included, and `ahead` keys after itself.

    `window(1)` is the query alone; `window(256)` is what Mistral calls a sliding window of 256.
    """
    n = count("window(n)", n, at_least=1)
    return Mask(Window(n - 1, count("window(ahead=)", ahead, at_least=0)))


def prefix(n: SupportsIndex | Int[Tensor, " batch"] | Sequence[int]) -> Mask:
    """Every query may attend to keys at positions below `n` (one number, or one per sequence).

    `causal() | prefix(n)` is a prefix language model.
    """
    if isinstance(n, SupportsIndex) and not getattr(n, "ndim", 0) and not isinstance(n, Tensor):
        return Mask(Prefix(count("prefix(n)", n, at_least=0)))
    return Mask(Prefix(whole_numbers(n, "prefix(n)", dims=1)))


def padding(
    *,
    lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
    key_padding_mask: Bool[Tensor, "batch key"] | None = None,
) -> Mask:
    """Hide padding keys; give exactly one of the two.

    Args:
        lengths: number of real tokens of each sequence, padding on the right.
        key_padding_mask: True = padding (as in torch.nn.MultiheadAttention), on any side.

    Raises:
        MaskError: neither or both given, a wrong dtype or shape.
    """
    if (lengths is None) == (key_padding_mask is None):
        raise MaskError("padding takes one of lengths= and key_padding_mask=; give exactly one")
    if lengths is not None:
        return Mask(Full(), (Lengths(whole_numbers(lengths, "padding(lengths=)", dims=1)),))
    assert key_padding_mask is not None
    require_bool(
        key_padding_mask,
        "key_padding_mask",
        "True = padding: for a 1/0 attention_mask of transformers pass attention_mask == 0",
    )
    if key_padding_mask.dim() != 2:
        raise MaskError(
            f"key_padding_mask must be [batch, key], came {list(key_padding_mask.shape)}"
        )
    return Mask(Full(), (Real(~key_padding_mask),))


def documents(
    ids: Int[Tensor, "*batch key"] | Sequence[int],
    query_ids: Int[Tensor, "*batch query"] | None = None,
) -> Mask:
    """Packed sequences: a query may attend only to keys of its own document.

    Args:
        ids: the document number of each position, [position] or [batch, position].
        query_ids: the numbers of the queries where they are another sequence (cross-attention): one for
            each query of the call, or more and read by the position of the query.
    """
    of_keys = whole_numbers(ids, "documents(ids)", dims=None)
    of_queries = (
        None if query_ids is None else whole_numbers(query_ids, "documents(query_ids=)", dims=None)
    )
    return Mask(Full(), (SameDocument(of_keys, of_queries),))


def tensor(allowed: Bool[Tensor, "*shape"]) -> Mask:
    """Any boolean tensor, True = may attend: [query, key] or [batch or 1, head or 1, query, key].

    A tensor with as many rows as there are queries is taken as it is; one with more rows is read by
    position, so the mask of a whole sequence also serves its cached steps.

    Raises:
        MaskError: not boolean, or of another shape.
    """
    require_bool(
        allowed, "a mask tensor", "True = may attend: pass x.bool(), or mask == 0 for a -inf mask"
    )
    if allowed.dim() == 2:
        allowed = allowed[None, None]
    if allowed.dim() != 4:
        shape = list(allowed.shape)
        raise MaskError(
            f"a mask tensor must be [query, key] or [batch, head, query, key], came {shape}; "
            + (
                "three axes may mean batch or head: use x[:, None] for a batch, x[None] for heads"
                if len(shape) == 3
                else "add or drop axes"
            )
        )
    return Mask(Given(allowed))


def positions(
    query_len: int, key_len: int, offset: int, device: torch.device | str | None
) -> tuple[Int[Tensor, "query 1"], Int[Tensor, "1 key"]]:
    """Positions of the queries and keys of one call whose first query sits at `offset`."""
    q = torch.arange(offset, offset + query_len, device=device)
    return q[:, None], torch.arange(key_len, device=device)[None, :]


def _is_symbol(length: object) -> bool:
    """Whether it stands for any length, in a graph of torch.export, which may not depend on how long."""
    return not isinstance(length, int)


def _both(a: Rule, b: Rule) -> Rule:
    """a & b, simplified where two windows or a full rule meet."""
    if isinstance(a, Full):
        return b
    if isinstance(b, Full):
        return a
    if isinstance(a, Window) and isinstance(b, Window):
        return Window(least(a.back, b.back), min(a.ahead, b.ahead))
    return Both(a, b)


def _either(a: Rule, b: Rule) -> Rule:
    """a | b; two windows are one, since both hold the query's own position."""
    if isinstance(a, Full) or isinstance(b, Full):
        return Full()
    if isinstance(a, Window) and isinstance(b, Window):
        return Window(most(a.back, b.back), max(a.ahead, b.ahead))
    return Either(a, b)


def _joined(a: tuple[Limit, ...], b: tuple[Limit, ...]) -> tuple[Limit, ...]:
    return a + tuple(limit for limit in b if all(limit is not known for known in a))
