"""What is kept of a pattern and what is pooled add up to it, whatever the mask, the sink and the blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from page_help import changed, dense, small

import headwise as hw
from headwise.core import masks
from headwise.show.page import keeping
from headwise.show.page.cells import Kept
from headwise.show.page.choosing import BUDGET, LADDER, budget_for, least_for
from headwise.show.page.keeping import kept_heads, mean_of
from headwise.show.page.scene import Scene
from headwise.show.page.streamed import streamed

LEAST = 0.04
SIDE = 8
CASES: dict[str, dict[str, Any]] = {
    "causal": {},
    "window": {"mask": masks.window(5)},
    "both ways": {"mask": None},
    "documents": {"mask": masks.causal() & masks.documents([0] * 15 + [1] * 25)},
    "sink": {"sink": torch.tensor([1.0, -1.0, 3.0, 0.0])},
}

_DOCUMENTS = {"mask": masks.causal() & masks.documents([0] * 60 + [1] * 141)}
WAYS = ("streamed", "blocks")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once from the statistics of one walk, once from blocks of patterns."""
    if request.param == "blocks":
        monkeypatch.setattr(keeping, "streamed", lambda *_: None)
    return str(request.param)


def heads_of(record: hw.Record, least: float) -> list[Kept]:
    return kept_heads(record.layers[next(iter(record.layers))], least, SIDE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("least", [0.0, LEAST])
def test_the_mass_of_each_row_is_all_there(case: str, least: float, way: str) -> None:
    record = changed(small(), **CASES[case])
    for head, kept in enumerate(heads_of(record, least)):
        exact = record.weights(f"0.{head}")
        total = dense(kept).sum(1) + kept.rest
        np.testing.assert_allclose(total, exact.sum(1), atol=1e-5)
        if case != "sink":
            np.testing.assert_allclose(total, 1, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_region_s_mean_is_that_of_the_cells_not_kept(case: str, way: str) -> None:
    record = changed(small(), **CASES[case])
    for head, kept in enumerate(heads_of(record, LEAST)):
        exact, seen = record.weights(f"0.{head}"), record.visible(f"0.{head}")
        left = seen & (exact < LEAST)
        assert np.array_equal(dense(kept) > 0, seen & ~left)
        assert kept.pool is not None
        size = 40 // SIDE
        for row, column in ((7, 0), (7, 7), (3, 2), (0, 7)):
            part = np.s_[row * size : (row + 1) * size, column * size : (column + 1) * size]
            want = exact[part][left[part]].mean() if left[part].any() else 0.0
            assert kept.pool[row, column] == pytest.approx(want, abs=1e-6)
        assert kept.mass is not None
        assert kept.mass.sum() == pytest.approx(kept.rest.sum(), rel=1e-4, abs=1e-4)


def test_blocks_of_rows_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "streamed", lambda *_: None)
    record = changed(small(), mask=masks.window(9))
    whole = heads_of(record, LEAST)
    monkeypatch.setattr(keeping, "BLOCK_CELLS", 4 * 40 * 7)
    for one, parts in zip(whole, heads_of(record, LEAST), strict=True):
        np.testing.assert_allclose(dense(one), dense(parts), atol=1e-6)
        np.testing.assert_allclose(one.rest, parts.rest, atol=1e-6)
        np.testing.assert_allclose(one.mass, parts.mass, atol=1e-6)
        assert np.array_equal(one.others, parts.others)


@pytest.mark.parametrize("case", [case for case in CASES if case != "sink"])
@pytest.mark.parametrize("path", ["kernel", "off"])
@pytest.mark.parametrize("least", [0.05, 0.1])
def test_one_walk_keeps_the_cells_that_blocks_keep(
    case: str, path: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "off":
        monkeypatch.setenv("HEADWISE_KERNEL", "off")
    given = _DOCUMENTS if case == "documents" else CASES[case]
    record = changed(small(201, head_dim=16), scale=3.0, **given)
    layer = next(iter(record.layers.values()))
    walked = streamed(layer, least, 12)
    assert walked is not None
    monkeypatch.setattr(keeping, "streamed", lambda *_: None)
    for one, other in zip(walked, kept_heads(layer, least, 12), strict=True):
        assert other.key.size
        for name in ("count", "key", "others"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        for name in ("weight", "rest", "mass"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-5)


def test_cells_that_one_walk_cannot_tell_are_left_to_blocks() -> None:
    record = changed(small())
    layer = next(iter(record.layers.values()))
    sunk = replace(layer, scores=replace(layer.scores, **CASES["sink"]))
    q = layer.scores.q.clone()
    q[0, 1, 7] = float("nan")
    broken = replace(layer, scores=replace(layer.scores, q=q))
    assert streamed(layer, 0.05, SIDE) is not None
    assert streamed(layer, 0.02, SIDE) is None
    assert streamed(layer, 0.0, SIDE) is None
    assert streamed(sunk, 0.05, SIDE) is None
    assert streamed(broken, 0.05, SIDE) is None


def test_as_many_cells_as_can_be_strong_are_all_kept() -> None:
    record = changed(small(), mask=masks.window(20))
    layer = next(iter(record.layers.values()))
    even = replace(layer, scores=replace(layer.scores, q=torch.zeros_like(layer.scores.q)))
    for kept in kept_heads(even, 0.0499, SIDE):
        assert kept.count[19:].tolist() == [20] * 21
        np.testing.assert_allclose(kept.rest, 0, atol=1e-6)


def test_a_mean_of_short_texts_is_exact() -> None:
    record = changed(small())
    mean = mean_of(heads_of(record, 0.0), [1.0] * 4, 0.0)
    exact = np.mean([record.weights(f"0.{h}") for h in range(4)], axis=0)
    np.testing.assert_allclose(dense(mean), exact, atol=1e-6)
    assert mean.pool is None


def test_a_mean_of_long_texts_keeps_the_mass_and_tells_no_more_than_there_is() -> None:
    record = changed(small(), mask=masks.window(12), scale=8.0)
    parts = heads_of(record, LEAST)
    mean = mean_of(parts, [1.0, 1.0, 1.0, 3.0], LEAST)
    shares = np.array([1, 1, 1, 3]) / 6
    exact = np.tensordot(shares, np.array([record.weights(f"0.{h}") for h in range(4)]), 1)
    held = dense(mean)
    np.testing.assert_allclose(held.sum(1) + mean.rest, exact.sum(1), atol=1e-5)
    assert (held <= exact + 1e-6).all()
    assert held[held > 0].min() >= LEAST
    assert mean.mass is not None
    assert mean.others is not None
    assert mean.mass.sum() == pytest.approx(mean.rest.sum(), rel=1e-4)
    assert mean.others.sum() == record.visible("0.0").sum() - len(mean.key)


def test_a_stack_s_mean_counts_every_head_once() -> None:
    record = changed(small())
    scene = Scene(record)
    exact = np.mean([record.weights(str(id)) for id in record.heads()], axis=0)
    np.testing.assert_allclose(dense(scene._mean("")), exact, atol=1e-6)


def test_weights_that_are_no_numbers_are_left_out() -> None:
    record = small()
    id, layer = next(iter(record.layers.items()))
    q = layer.scores.q.clone()
    q[0, 1, 7] = float("nan")
    layer = replace(layer, scores=replace(layer.scores, q=q), verified=float("nan"))
    broken = replace(record, layers={**record.layers, id: layer})
    for least in (0.0, LEAST):
        rows = dense(heads_of(broken, least)[1])
        assert not rows[7].any()
        assert rows[8].any()
        kept = heads_of(broken, least)[1]
        assert kept.mass is None or np.isfinite(kept.mass).all()
    assert "NaN" in Scene(broken).index["note"]
    assert Scene(broken).chunk("0.1")


def test_of_a_batch_each_text_is_as_if_alone() -> None:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(vocab_size=50, num_layers=1, num_heads=2, d_model=16)
    model = hw.load(hw.nn.Decoder(config))
    ids = torch.randint(50, (2, 12))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    padded = hw.look(model, {"input_ids": ids, "attention_mask": mask})[0]
    (alone,) = hw.look(model, {"input_ids": ids[:1, 5:]})
    a, b = (kept_heads(next(iter(r.layers.values())), 0.0, SIDE)[1] for r in (padded, alone))
    assert a.shape == (7, 7)
    np.testing.assert_allclose(dense(a), dense(b), atol=1e-5)


def test_a_smaller_budget_keeps_fewer_cells() -> None:
    record = changed(small(200))
    steps = [least_for(record, budget) for budget in (1e9, 200_000, 100_000, 10_000, 0)]
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert steps[-1] == LADDER[-1]
    assert len(set(steps)) > 2


def test_a_long_text_may_take_more_and_never_too_much() -> None:
    assert budget_for(1024) == BUDGET
    assert BUDGET < budget_for(2000) < budget_for(4000) <= budget_for(100_000) <= 16e6
