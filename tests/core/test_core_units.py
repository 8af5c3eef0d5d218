"""Attention between units against a plain loop over whole patterns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import masks, units
from headwise.core.scores import Scores
from headwise.core.units import Cases, CaseStatistics, measure_units

MASKS = {
    "full": None,
    "causal": masks.causal(),
    "window": masks.causal() & masks.window(3),
    "heads": masks.tensor(
        torch.rand(2, 4, 12, 12, generator=torch.Generator().manual_seed(1)) > 0.4
    ),
    "padding": masks.causal() & masks.padding(lengths=torch.tensor([12, 7])),
}


def cut(random: np.random.Generator, length: int) -> list[tuple[int, int]]:
    """Units that leave some tokens out."""
    at, found = int(random.integers(0, 2)), []
    while at < length:
        end = min(length, at + int(random.integers(1, 4)))
        found.append((at, end))
        at = end + int(random.integers(0, 2))
    return found


def cases_of(random: np.random.Generator, length: int) -> tuple[Cases, list[list[tuple[int, int]]]]:
    """Three views of two texts, every unit asked about up to twice."""
    views = [cut(random, length) for _ in range(3)]
    rows = sorted((first, view, last) for view, cuts in enumerate(views) for first, last in cuts)
    asked = [r for r in range(len(rows)) for _ in range(int(random.integers(0, 3)))] or [0]
    named = torch.full((len(asked), 2), -1)
    for i, r in enumerate(asked):
        count = int(random.integers(1, 3))
        few = random.permutation(len(views[rows[r][1]]))[:count]
        named[i, : len(few)] = torch.from_numpy(np.sort(few))
    most = max(map(len, views))
    unit_of_key = torch.full((3, length), most)
    for view, ranges in enumerate(views):
        for i, (first, last) in enumerate(ranges):
            unit_of_key[view, first:last] = i
    first, view, last = torch.tensor(rows).unbind(1)
    own = torch.tensor([views[v].index((a, z)) for a, v, z in rows])
    own[::3] = -1  # as where what looks is no unit of the keys
    batch_of = torch.tensor([0, 1, 0])
    return Cases(
        batch_of, unit_of_key, most, view, first, last - first, own, torch.tensor(asked), named
    ), views


def by_hand(
    scores: Scores, cases: Cases, views: list[list[tuple[int, int]]]
) -> dict[str, np.ndarray]:
    pattern = scores.rows().numpy()
    queries, keys = scores.shape[2:]
    allowed = scores.allowed(0, queries)
    open_keys = np.ones((1, 1, queries, keys), bool) if allowed is None else allowed.numpy()
    open_keys = np.broadcast_to(open_keys, pattern.shape)
    shape = (len(cases.row), scores.shape[1])
    mass, hits = np.zeros(shape), np.zeros(shape)
    visible, seen = np.zeros(shape, int), np.zeros((*shape, 2), bool)
    for i, h in np.ndindex(shape):
        row = int(cases.row[i])
        view, first = int(cases.view[row]), int(cases.first[row])
        mine = slice(first, first + int(cases.length[row]))
        b = int(cases.batch_of[view])
        to = np.array([pattern[b, h, mine, a:z].sum(1).mean() for a, z in views[view]])
        sees = np.array([open_keys[b, h, mine, a:z].any() for a, z in views[view]])
        wanted = [int(u) for u in cases.named[i] if u >= 0]
        seen[i, h, : len(wanted)] = sees[wanted]
        wanted = [u for u in wanted if sees[u]]
        own = int(cases.own[row])
        candidates = [u for u in range(len(to)) if sees[u] and (u != own or u in wanted)]
        visible[i, h] = len(candidates)
        mass[i, h] = to[wanted].sum()
        if mass[i, h] > 0:
            top = [u for u in candidates if to[u] >= max(to[candidates]) - 1e-7]
            hits[i, h] = len(set(top) & set(wanted)) / len(top)
    return {"mass": mass, "hits": hits, "visible": visible, "seen": seen}


def assert_same(found: CaseStatistics, expected: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(found.mass, expected["mass"], atol=2e-6)
    np.testing.assert_allclose(found.hits, expected["hits"], atol=1e-6)
    assert (found.visible.expand(found.mass.shape).numpy() == expected["visible"]).all()
    seen = found.seen.transpose(1, 2)
    width = seen.shape[2]
    assert (seen.expand(*found.mass.shape, width).numpy() == expected["seen"][..., :width]).all()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("cells", [1, 500, 1 << 20])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_units_are_sums_and_means_of_the_pattern(mask: str, cells: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    q, k = torch.randn(2, 4, 12, 16) * 2, torch.randn(2, 2, 12, 16)
    scores = Scores(q, k, MASKS[mask], 0.25)
    cases, views = cases_of(random, 12)
    before, units.BLOCK_CELLS = units.BLOCK_CELLS, cells
    try:
        found = measure_units(scores, cases)
    finally:
        units.BLOCK_CELLS = before
    assert_same(found, by_hand(scores, cases, views))


def each_itself() -> Cases:
    """Four tokens that are units by themselves, each asked about itself."""
    one = torch.arange(4)
    none = torch.zeros_like(one)
    return Cases(none[:1], one[None], 4, none, one, none + 1, none - 1, one, one[:, None])


def test_a_tie_is_shared_and_a_row_that_sees_nothing_has_no_hit() -> None:
    q, k = torch.zeros(1, 1, 4, 16), torch.randn(1, 1, 4, 16)
    alone = torch.ones(4, 4, dtype=torch.bool)
    alone[3] = False
    found = measure_units(Scores(q, k, masks.tensor(alone[None, None]), 1.0), each_itself())
    assert found.hits[:, 0].tolist() == [0.25, 0.25, 0.25, 0.0]
    assert found.mass[3].item() == 0
    assert found.seen[:, 0, 0].tolist() == [True, True, True, False]


def test_a_broken_row_comes_out_as_one() -> None:
    q, k = torch.ones(1, 2, 4, 16), torch.ones(1, 2, 4, 16)
    q[0, 1, 2] = float("nan")
    mass = measure_units(Scores(q, k, None, 1.0), each_itself()).mass
    assert mass.isnan().nonzero().tolist() == [[2, 1]]
