"""Calls to measure: any mask, grouped heads, bias, softcap, sink, cached queries, and anything wanted of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from reference import attention, fit, statistics
from strategies import Drawn, World, every, worlds
from torch import Tensor
from torch.testing import assert_close

from headwise.core.scores import Scores
from headwise.core.streaming import Block, Statistics, Wanted


def squares(block: Block) -> Tensor:
    return block.pattern.square().sum(-1)


def seen(block: Block) -> Tensor:
    """The mean index of the keys that may be seen, weighted by nothing."""
    allowed = block.allowed
    if allowed is None:
        allowed = torch.ones(1, 1, len(block.query), len(block.key), dtype=torch.bool)
    return (allowed * block.key).sum(-1).expand(block.pattern.shape[:3])


@dataclass(frozen=True)
class Case:
    """A call with what is wanted, and the same call for the oracle."""

    scores: Scores
    v: Tensor
    wanted: Wanted
    sees: np.ndarray
    text: str

    def __repr__(self) -> str:
        return self.text

    def oracle(self) -> tuple[Tensor, np.ndarray]:
        """(z, pattern) in float64."""
        s = self.scores
        z, pattern = attention(
            s.q, s.k, self.v, self.sees, s.scale, _finite(s.bias), s.softcap, s.sink
        )
        return z, pattern.numpy()


def _finite(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.nan_to_num(neginf=0.0)


@st.composite
def cases(draw: st.DrawFn, max_length: int = 9) -> Case:
    """Any call: small, float64."""
    world: World = draw(worlds(max_length))
    drawn: Drawn | None = draw(st.none() | every(world))
    per_group = draw(st.sampled_from([1, 2]))
    first = draw(st.integers(0, world.length))
    batch, keys = world.batch, world.length
    queries = keys - first
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    by_head = drawn is not None and drawn.mask.extent()[1] > 1
    heads = world.heads if by_head else world.heads * per_group
    groups = heads // per_group if heads % per_group == 0 else heads
    q, k = normal(batch, heads, queries, 3), normal(batch, groups, keys, 3)
    v = normal(batch, groups, keys, 2)
    shape = (batch, heads, queries, keys)
    sees = np.ones(shape, bool)
    if drawn is not None:
        cells = drawn.cells(world, first)
        sees = np.broadcast_to(cells if by_head else cells[:, :1], shape).copy()
    bias = None
    if draw(st.booleans()):
        bias = normal(
            1, draw(st.sampled_from([1, heads])), draw(st.sampled_from([1, queries])), keys
        )
        if draw(st.booleans()):
            bias = bias.masked_fill(bias < -0.5, float("-inf"))
            sees &= ~np.isneginf(bias.numpy())
    scores = Scores(
        2 * q,
        k,
        None if drawn is None else drawn.mask,
        0.7,
        bias,
        draw(st.sampled_from([None, 3.0])),
        normal(heads) if draw(st.booleans()) else None,
        first,
    )
    wanted = draw(wishes(batch, queries, keys))
    text = f"Case({scores.q.shape}, {groups} groups, {drawn}, first {first}, bias {bias is not None}, {wanted})"
    return Case(scores, v, wanted, sees, text)


def wishes(batch: int, queries: int, keys: int) -> st.SearchStrategy[Wanted]:
    """Anything one may want of a call."""
    rows = st.sampled_from(sorted({1, batch}))
    seeds = st.integers(0, 2**16).map(np.random.default_rng)
    probes = st.builds(
        lambda r, n, some: torch.from_numpy(r.integers(-1, keys, (n, some, queries))),
        seeds,
        rows,
        st.integers(1, 3),
    )
    eligible = st.builds(lambda r, n: torch.from_numpy(r.random((n, keys)) < 0.7), seeds, rows)
    functions = st.sampled_from([{}, {"squares": squares, "seen": seen}])

    def lengths(most: int) -> st.SearchStrategy[Tensor | None]:
        return st.none() | st.lists(st.integers(0, most), min_size=batch, max_size=batch).map(
            torch.tensor
        )

    return st.builds(
        Wanted,
        probes=st.none() | probes,
        top=st.integers(0, 4),
        eligible=st.none() | eligible,
        apart=st.integers(0, 3),
        pool=st.integers(0, 5),
        received=st.booleans(),
        query_lengths=lengths(queries),
        key_lengths=lengths(keys),
        functions=functions,
    )


def check(
    found: Statistics, pattern: np.ndarray, sees: np.ndarray, wanted: Wanted, offset: int
) -> None:
    """Every statistic against the oracle; what was not wanted is not there."""
    expected = statistics(pattern, sees, wanted, offset)
    for name in ("entropy", "distance", "largest", "visible", "mass", "hits", "named_seen"):
        compare(name, getattr(found, name), expected.get(name))
    for name in ("received", "seen_by", "pooled", "pooled_max"):
        compare(name, getattr(found, name), expected.get(name))
    assert (found.top_keys is None) == (wanted.top == 0)
    if found.top_keys is not None and found.top_weights is not None:
        check_strongest(found.top_keys, found.top_weights, pattern, fit(sees, wanted, offset))
    assert set(found.own) == set(wanted.functions)
    if found.own:
        compare("squares", found.own["squares"], (pattern**2).sum(-1))


def compare(name: str, found: Tensor | None, expected: np.ndarray | None) -> None:
    assert (found is None) == (expected is None), name
    if found is not None and expected is not None:
        assert found.dtype is (torch.float32 if expected.dtype.kind == "f" else found.dtype)
        whole = found.expand(expected.shape)
        assert_close(
            whole.double(),
            torch.from_numpy(expected).double(),
            atol=2e-6,
            rtol=2e-6,
            msg=lambda m: f"{name}: {m}",
        )


def check_strongest(keys: Tensor, weights: Tensor, pattern: np.ndarray, fits: np.ndarray) -> None:
    """The weights are the largest that fit, each is that of its key, no key comes twice, -1 where no more."""
    top = keys.shape[-1]
    worth = torch.from_numpy(np.where(fits, pattern, -1.0))
    worth = torch.nn.functional.pad(worth, (0, max(0, top - worth.shape[-1])), value=-1.0)
    best = worth.topk(top, -1).values
    none = best < 0
    assert torch.equal(keys < 0, none)
    assert (keys[none] == -1).all()
    assert_close(weights.double(), best.clamp_min(0), atol=1e-6, rtol=1e-6)
    own = worth.gather(-1, keys.clamp_min(0))
    assert_close(own[~none], best[~none], atol=1e-6, rtol=1e-6)
    apart = keys.sort(-1).values.diff(dim=-1)
    assert ((apart > 0) | (keys.sort(-1).values[..., 1:] < 0)).all()
