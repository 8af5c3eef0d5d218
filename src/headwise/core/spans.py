"""The run of keys each query may see, where a mask shows every query one run: what the compiled kernel reads.

Full, causal, windows, padding and packed documents are worked out from the mask's own rules, in O(n). What the
rules do not tell, as of a mask tensor, is read off the mask's rows, some at a time.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.core.limits import Lengths, Limit, Real, SameDocument
from headwise.core.masks import Mask
from headwise.core.rules import (
    ANYWHERE,
    Band,
    Both,
    Either,
    Full,
    Other,
    Prefix,
    Rule,
    Window,
)

__all__ = ["Span", "spans"]

Span = tuple[Tensor, Tensor]
"""First key and the key after the last of each query, [batch or 1, query]; empty where hi <= lo."""

_CELLS = 1 << 20
"""Cells of a mask read at a time."""


def spans(
    mask: Mask | None, queries: int, keys: int, offset: int
) -> tuple[Int[Tensor, "batch query"], Int[Tensor, "batch query"]] | None:
    """The keys [lo, hi) each query sees, int32, batch 1 where it is the same for all; lo = hi = 0 where none.

    None where the mask shows some query no single run of keys, or tells heads apart.

    Raises:
        MaskError: the mask carries a tensor too short for this many queries or keys.
    """
    if mask is None or (not mask.limits and isinstance(mask.rule, Full | Window)):
        return _of_band(ANYWHERE if mask is None else mask.rule.band(), queries, keys, offset)
    at = torch.arange(offset, offset + queries, device="cpu")[None]
    everything = torch.zeros_like(at), torch.full_like(at, keys)
    bound = mask.bound(queries, keys, offset)
    found = _of_rule(bound.rule, at, everything)
    for limit in bound.limits:
        part = None if found is None else _of_limit(limit, at, keys)
        found = None if found is None or part is None else _overlap(found, part)
    if found is None:
        found = _read(bound, at[0], keys)
    return None if found is None else _tidy(found, keys)


@lru_cache(maxsize=16)
def _of_band(band: Band, queries: int, keys: int, offset: int) -> Span:
    """The keys within a band, kept because all layers of a model ask for the same."""
    back, ahead = band
    at = torch.arange(offset, offset + queries, device="cpu")[None]
    low = torch.zeros_like(at) if back is None else at - back
    high = torch.full_like(at, keys) if ahead is None else at + ahead + 1
    return _tidy((low, high), keys)


def _overlap(a: Span, b: Span) -> Span:
    return torch.maximum(a[0], b[0]), torch.minimum(a[1], b[1])


def _tidy(span: Span, keys: int) -> Span:
    low, high = span[0].clamp(0, keys), span[1].clamp(0, keys)
    low, high = torch.broadcast_tensors(low, high)
    empty = high <= low
    low, high = low.masked_fill(empty, 0), high.masked_fill(empty, 0)
    return low.int().contiguous(), high.int().contiguous()


def _of_rule(rule: Rule, at: Tensor, everything: Span) -> Span | None:
    """The run each query at `at` [1, query] sees by a rule; None where the rule does not tell."""
    low, high = everything
    match rule:
        case Full():
            return everything
        case Window():
            start = low if rule.back is None else torch.maximum(low, at - rule.back)
            return start, torch.minimum(high, at + rule.ahead + 1)
        case Prefix():
            length = torch.as_tensor(rule.length, device="cpu").view(-1, 1)
            return low, torch.minimum(high, length)
        case Both():
            left, right = (_of_rule(r, at, everything) for r in (rule.left, rule.right))
            return None if left is None or right is None else _overlap(left, right)
        case Either():
            left, right = (_of_rule(r, at, everything) for r in (rule.left, rule.right))
            return None if left is None or right is None else _joined(left, right)
        case Other():
            inner = _of_rule(rule.rule, at, everything)
            return None if inner is None else _rest(inner, everything)
        case _:
            return None


def _joined(a: Span, b: Span) -> Span | None:
    """Either of two runs, where that is one run everywhere."""
    a_none, b_none = a[1] <= a[0], b[1] <= b[0]
    meets = (a[0] <= b[1]) & (b[0] <= a[1])
    if not bool((meets | a_none | b_none).all()):
        return None
    low, high = torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])
    low = torch.where(a_none, b[0], torch.where(b_none, a[0], low))
    high = torch.where(a_none, b[1], torch.where(b_none, a[1], high))
    return low, high


def _rest(inner: Span, everything: Span) -> Span | None:
    """All keys but a run, where that is one run everywhere: the run touches an end, or is empty."""
    first, last = everything
    low, high = torch.maximum(inner[0], first), torch.minimum(inner[1], last)
    none = high <= low
    from_start, to_end = low <= first, high >= last
    if not bool((none | from_start | to_end).all()):
        return None
    start = torch.where(none | ~from_start, first, high)
    stop = torch.where(none | from_start, last, low)
    return start, stop


def _of_limit(limit: Limit, at: Tensor, keys: int) -> Span | None:
    match limit:
        case Lengths():
            return at.new_zeros(1, 1), limit.lengths.cpu().view(-1, 1)
        case Real():
            return _of_real(limit.real.cpu()[:, :keys])
        case SameDocument():
            return _of_documents(limit, at[0], keys)


def _of_real(real: Tensor) -> Span | None:
    if not real.shape[1]:
        return real.new_zeros(1, 1, dtype=torch.long), real.new_zeros(1, 1, dtype=torch.long)
    count = real.sum(1, keepdim=True)
    low = real.view(torch.uint8).argmax(1, keepdim=True)
    high = real.shape[1] - real.flip(1).view(torch.uint8).argmax(1, keepdim=True)
    one_run = (count == high - low) | (count == 0)
    return (low, torch.where(count == 0, low, high)) if bool(one_run.all()) else None


def _of_documents(limit: SameDocument, at: Tensor, keys: int) -> Span | None:
    """Documents that lie in one piece, asked by queries that sit among their own keys."""
    queries = len(at)
    if limit.query_ids is not None or not queries or int(at[0]) < 0 or int(at[-1]) >= keys:
        return None
    ids = limit.ids.cpu()[:, :keys]
    new = torch.ones_like(ids, dtype=torch.bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    pieces = new.sum(1)
    documents = torch.stack([(row[1:] != row[:-1]).sum() + 1 for row in ids.sort(1).values])
    if not bool((pieces == documents).all()):
        return None
    index = torch.arange(keys, device="cpu")
    start = torch.where(new, index, 0).cummax(1).values
    last = torch.ones_like(new)
    last[:, :-1] = new[:, 1:]
    stop = torch.where(last, index + 1, keys).flip(1).cummin(1).values.flip(1)
    return start[:, at], stop[:, at]


def _read(mask: Mask, at: Tensor, keys: int) -> Span | None:
    """The runs read off the mask's rows; None where a row is no run or heads differ."""
    batch, heads = mask.extent()
    if not len(at) or not keys:
        return at.new_zeros(1, len(at)), at.new_zeros(1, len(at))
    lows, highs = [], []
    for rows in at.split(max(1, _CELLS // max(1, batch * heads * keys))):
        seen = mask.see(rows[:, None], torch.arange(keys, device="cpu")[None])
        if seen.shape[1] > 1 and not bool((seen == seen[:, :1]).all()):
            return None
        one = _of_real(seen[:, 0].flatten(0, 1))
        if one is None:
            return None
        lows.append(one[0].view(-1, len(rows)))
        highs.append(one[1].view(-1, len(rows)))
    return torch.cat(lows, 1), torch.cat(highs, 1)
