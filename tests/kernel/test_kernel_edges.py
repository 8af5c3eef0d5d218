"""Rows at the edge of what there is: sharp, equal, blind, with NaN and infinity, of one key."""

from __future__ import annotations

import pytest
import torch
from kernel_help import assert_same, forced, scores_of

from headwise import attend
from headwise.core import kernel, masks
from headwise.core.streaming import Statistics, Wanted, measure

EVERY = pytest.mark.parametrize("name", kernel.SETS)


def everything(batch: int, queries: int, keys: int, top: int = 8) -> Wanted:
    probes = torch.randint(-1, keys, (batch, 3, queries))
    return Wanted(probes=probes, top=top, pool=4, received=True)


def run(q, k, v, mask, wanted) -> tuple[torch.Tensor, Statistics]:
    return measure(scores_of(q, k, mask), v, wanted, path="kernel")


@EVERY
@pytest.mark.parametrize("sharp", [30.0, 300.0])
def test_sharp_rows(name: str, sharp: float) -> None:
    """Nearly all weight on a key or two: numbers of few bits, so that float32 scores are exact."""
    torch.manual_seed(0)
    q, k = torch.randint(-2, 3, (2, 1, 4, 120, 16)).float()
    with forced(name):
        assert_same(scores_of(q * sharp, k, masks.causal()), k, everything(1, 120, 120))


@EVERY
def test_a_long_row(name: str) -> None:
    torch.manual_seed(0)
    n = 16384
    q, k = torch.randn(1, 1, 3, 32), torch.randn(1, 1, n, 32)
    with forced(name):
        assert_same(scores_of(q, k, None, n - 3), k, everything(1, 3, n, top=32))


@EVERY
@pytest.mark.parametrize("top", [1, 3, 8, 32])
def test_ties_name_each_key_once_earliest_first(name: str, top: int) -> None:
    q, k = torch.zeros(1, 1, 200, 16), torch.randn(1, 1, 200, 16)
    with forced(name):
        _, found = run(q, k, k, masks.causal(), Wanted(top=top))
    for i in (0, 1, 5, 70, 199):
        seen = list(range(min(top, i + 1)))
        assert found.top_keys[0, 0, i].tolist() == seen + [-1] * (top - len(seen))


@EVERY
def test_blind_rows_are_zero(name: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 20, 16)
    mask = masks.causal() & masks.padding(key_padding_mask=torch.arange(20).expand(2, -1) < 7)
    with forced(name):
        z, found = run(q, k, v, mask, everything(2, 20, 20))
        assert_same(scores_of(q, k, mask), v, everything(2, 20, 20))
    assert not z[:, :, :7].any()
    for field in ("entropy", "distance", "largest"):
        assert not getattr(found, field)[:, :, :7].any()
    assert not found.mass[..., :7].any()
    assert not found.hits[..., :7].any()
    assert bool((found.top_keys[:, :, :7] == -1).all())


@EVERY
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_score_spoils_its_row_alone(name: str, bad: float) -> None:
    torch.manual_seed(0)
    q, k, v = torch.rand(3, 1, 2, 40, 16) + 0.1
    fine_z = attend(q, k, v, masks.causal())
    q[0, 0, 11, 3] = bad
    with forced(name):
        z, found = run(q, k, v, masks.causal(), everything(1, 40, 40))
    spoilt = torch.zeros(1, 2, 40, dtype=torch.bool)
    spoilt[0, 0, 11] = True
    for x in (found.entropy, found.distance, found.largest, z[..., 0]):
        assert torch.equal(x.isnan(), spoilt)
    torch.testing.assert_close(z[~spoilt], fine_z[~spoilt])
    named = found.top_keys[0, 0, 11]
    assert sorted(named.tolist()) == sorted(set(named.tolist()))
    assert bool(((named >= 0) & (named <= 11)).all())
    assert bool(found.top_weights[0, 0, 11].isnan().all())
    assert not found.hits[0, 0, :, 11].any()
    assert bool(found.received[0, 0, :12].isnan().all())
    assert not found.received[0, 0, 12:].isnan().any()
    assert not found.received[0, 1].isnan().any()


@EVERY
def test_a_nan_key_spoils_those_who_see_it(name: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 100, 16)
    k[0, 0, 60] = float("nan")
    with forced(name):
        z, found = run(q, k, v, masks.causal(), everything(1, 100, 100))
    assert not z[:, :, :60].isnan().any()
    assert bool(z[:, :, 60:].isnan().all())
    assert torch.equal(found.entropy.isnan()[0, 0], torch.arange(100) >= 60)


@EVERY
def test_scores_of_minus_infinity_weigh_nothing(name: str) -> None:
    q, k, v = torch.ones(1, 1, 5, 16), torch.ones(1, 1, 5, 16), torch.randn(1, 1, 5, 16)
    k[0, 0, 2] = -float("inf")
    with forced(name):
        z, found = run(q, k, v, masks.causal(), Wanted(top=5))
    torch.testing.assert_close(z[0, 0, 4], v[0, 0, [0, 1, 3, 4]].mean(0))
    assert found.top_keys[0, 0, 4].tolist() == [0, 1, 3, 4, 2]
    assert float(found.entropy[0, 0, 4]) == pytest.approx(torch.tensor(4.0).log().item())


@EVERY
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (0, 5), (1, 300), (300, 1)])
def test_one_and_none(name: str, queries: int, keys: int) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, queries, 24), torch.randn(2, 3, keys, 24)
    with forced(name):
        assert_same(scores_of(q, k, None, keys - queries), k, everything(2, queries, keys))
