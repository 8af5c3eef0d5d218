"""What the tests of the kernel share: forcing a set of instructions, and the statistics in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from headwise.core import kernel, portable
from headwise.core.masks import Mask
from headwise.core.scores import Scores
from headwise.core.streaming import Statistics, Wanted, measure

NUMBERS = ("entropy", "distance", "largest", "mass", "received", "pooled", "pooled_max")
COUNTS = ("visible", "seen_by")


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Run with one set of instructions; skips where the build or the CPU lacks it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernel.VARIABLE, name)
        if not kernel.status().runs:
            pytest.skip(f"no {name} here: {kernel.status().why}")
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def scores_of(q: Tensor, k: Tensor, mask: Mask | None, offset: int = 0) -> Scores:
    return Scores(q, k, mask, 1 / math.sqrt(q.shape[-1]), query_offset=offset)


def both(
    scores: Scores, v: Tensor, wanted: Wanted
) -> tuple[tuple[Tensor, Statistics], tuple[Tensor, Statistics], Tensor]:
    """(z, statistics) of the kernel, the same in float64 in plain torch, and the float64 pattern."""
    wide = Scores(scores.q.double(), scores.k.double(), scores.mask, scores.scale)
    wide = Scores(**{**vars(wide), "query_offset": scores.query_offset})
    ours = measure(scores, v, wanted, path="kernel")
    return ours, portable.measure(wide, v.double(), wanted), wide.rows()


def assert_same(scores: Scores, v: Tensor, wanted: Wanted, atol: float = 1e-4) -> None:
    """The kernel's z and statistics are those of float64."""
    (z, ours), (right_z, right), pattern = both(scores, v, wanted)
    half = v.dtype is torch.bfloat16
    assert z.dtype == v.dtype
    torch.testing.assert_close(
        z.double(), right_z, atol=1e-2 if half else atol, rtol=1e-2 if half else atol
    )
    for name in NUMBERS:
        mine, theirs = getattr(ours, name), getattr(right, name)
        assert (mine is None) == (theirs is None), name
        if theirs is not None:
            assert mine.dtype == torch.float32
            torch.testing.assert_close(
                mine.double(),
                theirs.double(),
                atol=atol,
                rtol=atol,
                msg=lambda m, n=name: f"{n}: {m}",
            )
    for name in COUNTS:
        mine, theirs = getattr(ours, name), getattr(right, name)
        if theirs is not None:
            assert bool((mine == theirs).all()), name
    if wanted.probes is not None:
        clear = (right.mass - right.largest[:, :, None]).abs() > 1e-4
        clear |= right.mass == 0
        assert bool((ours.hits == right.hits)[clear].all())
        assert bool(ours.hits[right.hits & _alone(pattern)[:, :, None]].all())
    if wanted.top:
        _assert_top(ours, right, pattern, atol)


def _alone(pattern: Tensor) -> Tensor:
    """Whether one key of the row has clearly the largest weight, [batch, head, query]."""
    two = pattern.topk(min(2, pattern.shape[-1]), -1).values
    return two[..., 0] - (two[..., 1] if two.shape[-1] > 1 else 0) > 1e-4


def _assert_top(ours: Statistics, right: Statistics, pattern: Tensor, atol: float) -> None:
    """The same weights; keys that are equally strong may stand for each other, but none twice."""
    torch.testing.assert_close(
        ours.top_weights.double(), right.top_weights.double(), atol=atol, rtol=atol
    )
    none = right.top_keys < 0
    assert bool(((ours.top_keys < 0) == none).all())
    named = pattern.gather(-1, ours.top_keys.clamp_min(0)).masked_fill(none, 0)
    torch.testing.assert_close(named, right.top_weights.double(), atol=atol, rtol=atol)
    ordered = ours.top_keys.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    assert not bool(twice.any())
