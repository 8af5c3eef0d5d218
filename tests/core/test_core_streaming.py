"""Statistics of every row, measured block by block, against the whole pattern in float64."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streaming_cases import Case, cases, check, check_strongest
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.core import masks, portable
from headwise.core import scores as blocks
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure
from headwise.core.strongest import strongest

NEAR = {"atol": 1e-5, "rtol": 1e-5}


@given(cases(), st.sampled_from([1 << 20, 120, 30, 1]))
def test_every_statistic_of_any_call(case: Case, cells: int) -> None:
    z, pattern = case.oracle()
    with patch.object(blocks, "BLOCK_CELLS", cells), patch.object(portable, "ROWS", 4):
        ours, found = measure(case.scores, case.v, case.wanted, "portable")
    assert_close(ours, z)
    check(found, pattern, case.sees, case.wanted, case.scores.query_offset)


@given(cases())
def test_a_row_that_sees_nothing_has_nothing(case: Case) -> None:
    found = measure(case.scores, case.v, case.wanted, "portable")[1]
    blind = torch.from_numpy(~case.sees.any(-1))
    for name in ("entropy", "distance", "largest", "visible"):
        assert not getattr(found, name).expand(blind.shape)[blind].any()
    if found.top_keys is not None and found.top_weights is not None:
        assert (found.top_keys[blind] == -1).all()
        assert not found.top_weights[blind].any()
    if found.mass is not None and found.hits is not None:
        assert not found.mass.transpose(2, 3)[blind].any()
        assert not found.hits.transpose(2, 3)[blind].any()


@given(cases())
def test_mass_is_neither_lost_nor_made(case: Case) -> None:
    """Rows of the pooled map sum to the share of queries that see something, the received mass to their number."""
    if case.scores.sink is not None:
        return
    wanted = Wanted(pool=3, received=True, query_lengths=case.wanted.query_lengths)
    found = measure(case.scores, case.v, wanted, "portable")[1]
    queries = case.scores.shape[2]
    lengths = case.wanted.query_lengths
    real = torch.full(case.sees.shape[:1], queries) if lengths is None else lengths
    at = torch.arange(queries)
    sees = torch.from_numpy(case.sees.any(-1)) & (at < real[:, None])[:, None]
    assert found.received is not None
    assert found.pooled is not None
    assert_close(found.received.sum(-1), sees.sum(-1).float(), **NEAR)
    for b, cell in ((b, c) for b in range(len(real)) for c in range(3)):
        mine = (at < real[b]) & (at * 3 // max(1, int(real[b])) == cell)
        share = sees[b][:, mine].float().mean(-1) if mine.any() else torch.zeros(sees.shape[1])
        assert_close(found.pooled[b, :, cell].sum(-1), share, **NEAR)


@given(st.integers(1, 700), st.integers(1, 9), st.booleans(), st.integers(0, 2**16))
def test_the_strongest_are_exact_at_every_length(
    keys: int, count: int, even: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    worth = torch.rand(3, keys, generator=random)
    worth = (worth * 4).round() if even else worth  # many of the same
    weights, at = strongest(worth, min(count, keys))
    assert torch.equal(weights, worth.topk(min(count, keys)).values)
    assert torch.equal(worth.gather(-1, at), weights)
    assert all(len(set(row)) == len(row) for row in at.tolist())


def call(
    n: int, *, dtype: torch.dtype = torch.float32, **options: object
) -> tuple[Scores, torch.Tensor]:
    q, k, v = (torch.randn(2, heads, n, 8, dtype=dtype) for heads in (4, 2, 2))
    mask = masks.causal() & masks.padding(lengths=[n, n - 5])
    return Scores(2 * q, k, mask, 0.35, **options), v  # type: ignore[arg-type]


def everything(n: int) -> Wanted:
    at = torch.arange(n)
    probes = torch.stack([at - 1, at, torch.zeros_like(at)])[None]
    lengths = torch.tensor([n, n - 5])
    return Wanted(probes, 4, None, 2, 8, True, lengths, lengths, {"squares": _squares})


def _squares(block: object) -> torch.Tensor:
    return block.pattern.square().sum(-1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_inputs_are_computed_in_float32(dtype: torch.dtype) -> None:
    scores, v = call(150, dtype=dtype)
    z, found = measure(scores, v, everything(150), "portable")
    exact = Scores(scores.q.double(), scores.k.double(), scores.mask, scores.scale)
    expected, same = measure(exact, v.double(), everything(150), "portable")
    assert z.dtype is dtype
    assert_close(z.double(), expected, atol=1e-5 if dtype is torch.float32 else 1e-2, rtol=1e-2)
    for name in ("entropy", "distance", "largest", "mass", "received", "pooled", "pooled_max"):
        assert_close(getattr(found, name), getattr(same, name), atol=3e-5, rtol=1e-5)


def test_a_nan_stays_in_its_row() -> None:
    scores, v = call(70)
    scores.q[0, 1, 33] = float("nan")
    found = measure(scores, v, everything(70), "portable")[1]
    hurt = torch.zeros(2, 4, 70, dtype=torch.bool)
    hurt[0, 1, 33] = True
    for numbers in (found.entropy, found.distance, found.largest, found.own["squares"]):
        assert torch.equal(numbers.isnan(), hurt)
    assert found.mass is not None
    assert found.top_weights is not None
    assert found.pooled is not None
    assert found.pooled_max is not None
    assert torch.equal(found.top_weights.isnan().any(-1), hurt)
    assert found.mass[0, 1, :, 33].isnan().all()
    assert found.mass.isnan().sum() == 3
    rows = torch.arange(70) * 8 // 70
    for pooled in (found.pooled, found.pooled_max):
        assert pooled[0, 1, rows[33]].isnan().any()
        assert not pooled[0, 1, torch.arange(8) != rows[33]].isnan().any()
        assert not pooled[1].isnan().any()


def test_a_nan_in_the_padding_does_not_count() -> None:
    scores, v = call(70)
    scores.q[1, :, 40:] = float("nan")
    wanted = replace(everything(70), query_lengths=torch.tensor([70, 40]))
    found = measure(scores, v, wanted, "portable")[1]
    for numbers in (found.received, found.pooled, found.pooled_max):
        assert numbers is not None
        assert numbers.isfinite().all()


def test_no_queries_and_no_keys() -> None:
    for queries, keys in ((0, 5), (3, 0)):
        scores = Scores(torch.randn(1, 2, queries, 4), torch.randn(1, 2, keys, 4), None, 1.0)
        probes = torch.full((1, 1, queries), -1)
        wanted = Wanted(probes, top=2, pool=2, received=True)
        z, found = measure(scores, torch.randn(1, 2, keys, 4), wanted, "portable")
        assert z.shape == (1, 2, queries, 4)
        assert not z.any()
        assert found.entropy.shape == (1, 2, queries)
        assert found.top_keys is not None
        assert (found.top_keys == -1).all()
        assert found.pooled is not None
        assert not found.pooled.any()


class Largest(TorchDispatchMode):
    """Notes the most memory any tensor holds that is made meanwhile, in bytes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("mask", [masks.causal(), masks.window(99), masks.padding(lengths=[4000])])
def test_nothing_of_n_x_n_is_ever_made(mask: masks.Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    n, heads = 4096, 4
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 1 << 18)
    q, k, v = (torch.randn(1, heads, n, 8) for _ in range(3))
    at = torch.arange(n)
    wanted = Wanted(at[None, None], 4, None, 2, 8, True)
    with Largest() as largest:
        measure(Scores(q, k, mask, 0.35), v, wanted, "portable")
    assert largest.bytes <= 4 * (1 << 18)  # one tile in float32, and nothing is larger


def test_what_is_not_wanted_is_not_there() -> None:
    scores, v = call(64)
    found = measure(scores, v, Wanted(), "portable")[1]
    assert found.own == {}
    for name in ("mass", "hits", "top_keys", "top_weights", "received", "seen_by", "pooled"):
        assert getattr(found, name) is None
    assert found.pooled_max is None


@pytest.mark.models
def test_trained_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2's rows are sharp, and its 9 heads share 3 KV heads."""
    import numpy as np

    import headwise as hw
    from headwise.core.taps import Tap, tapped

    model = hw.load("smollm2")
    kept: list[tuple[Scores, torch.Tensor, torch.Tensor]] = []
    layers = [model.anatomy.layers[at] for at in (0, 13, 29)]
    tap = Tap(observers=(lambda scores, v, z: kept.append((scores, v, z)),))
    ids = model.tokenizer.encode(
        "The animal didn't cross the street because it was too tired. " * 6
    )
    with torch.no_grad(), model.open(), tapped({layer.module: tap for layer in layers}):
        model.run({"input_ids": torch.tensor([getattr(ids, "ids", ids)])})
    assert len(kept) == 3
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 1 << 12)
    for scores, v, z in kept:
        n = scores.shape[2]
        wanted = replace(everything(n), query_lengths=None, key_lengths=None)
        ours, found = measure(scores, v, wanted, "portable")
        assert_close(ours, z, atol=1e-5, rtol=1e-5)
        exact = Scores(scores.q.double(), scores.k.double(), scores.mask, scores.scale)
        pattern = exact.rows().numpy()
        sees = np.broadcast_to(np.tri(n, dtype=bool), pattern.shape)
        _close_to_the_oracle(found, pattern, sees, wanted)


def _close_to_the_oracle(found, pattern, sees, wanted) -> None:  # type: ignore[no-untyped-def]
    from reference import fit, statistics

    expected = statistics(pattern, sees, wanted, 0)
    for name, numbers in expected.items():
        if name != "hits":
            ours = getattr(found, name).double().expand(numbers.shape)
            assert_close(ours, torch.from_numpy(numbers).double(), atol=1e-4, rtol=1e-4)
    assert (found.hits.numpy() == expected["hits"]).mean() > 0.999
    check_strongest(found.top_keys, found.top_weights, pattern, fit(sees, wanted, 0))
