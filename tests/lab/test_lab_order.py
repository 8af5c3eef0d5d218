"""C22: what the claim about order measures, and that its verdict can come out either way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bench_help import named, small_bench

from headwise.lab.bench import Bench
from headwise.lab.claims import order
from headwise.lab.claims.order import (
    CLAIM,
    ENCODER,
    ROUNDING,
    gained,
    long_rows,
    moved,
    read,
    trained,
)
from headwise.lab.results import Results, Row
from headwise.nn import Encoder


def made(
    blind: float = 1e-6,
    seeing: float = 0.4,
    decoder: float = 0.3,
    none: float = 0.1,
    noise: float = 0.01,
) -> Results:
    """What each kind moves, and losses of which that without positions is `none` above the others."""
    luck = np.random.default_rng(5)
    rows = []
    for seed in range(4):
        for case in CLAIM.cases(False):
            if case["model"] == ENCODER:
                moves = blind if case == read("none") else seeing
                numbers = {"moved": moves, "english": moves, "chinese": moves}
            else:
                bare = case["positions"] == "none"
                loss = 3 + noise * luck.normal() + bare * none
                numbers = {"loss": loss, "within": loss, "beyond": loss + 0.2, "alone": loss + 0.1}
                numbers["moved"] = 1e-7 if case["blocks"] == 1 else decoder
            rows.append(Row(case, seed, numbers))
    return Results(rows)


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        (made(), "holds up to"),
        (made(decoder=1e-7), "holds"),
        (made(blind=0.2), "fails here"),
        (made(seeing=1e-6), "fails here"),
        (made(decoder=1e-7, noise=3.0), "not settled"),
    ],
)
def test_verdict(results: Results, kind: str) -> None:
    assert CLAIM.judge(results).kind == kind


def test_an_encoder_is_blind_without_positions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    rows = bench.rows(3)
    torch.manual_seed(0)
    found = {
        kind: moved(Encoder(bench.config(positions=kind)).eval(), rows, 0)
        for kind in order.POSITIONS
    }
    assert found.pop("none") < ROUNDING
    assert all(moves > ROUNDING for moves in found.values()), found


def test_a_decoder_of_one_block_is_blind_and_one_of_two_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = small_bench(monkeypatch, steps=20)
    one, two = (CLAIM.measure(bench, trained("none", blocks), 0) for blocks in (1, 2))
    assert one["moved"] < ROUNDING < two["moved"]
    assert two["beyond"] != two["alone"]


def test_the_second_half_by_itself_is_what_the_model_says_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a window no longer than its first token, what precedes the second half changes nothing."""
    bench = small_bench(monkeypatch)
    module = bench.decoder(0, window=1, positions="none", max_length=32).eval()
    found = order.losses(bench, module, 16)
    assert found["beyond"] == pytest.approx(found["alone"], abs=1e-5)
    assert found["within"] != pytest.approx(found["alone"], abs=1e-5)
    assert long_rows(bench, 33).shape[1] == 33


def test_gained_is_paired_by_seed() -> None:
    value = gained(made(noise=1.0), "rope")
    assert value.mean == pytest.approx(0.1)
    assert value.high - value.low < 1e-9


def test_panels_and_facts() -> None:
    results = made(noise=0.0)
    losses, longer = CLAIM.panels(results)
    assert [tick.en for tick in losses.ticks] == list(order.POSITIONS)
    assert np.allclose(longer.lines[0].y, 0.1)
    facts = CLAIM.facts(results)
    assert named("order") <= facts.keys()
    assert facts["over_none"].startswith("0.1")
    quick = Results([row for row in results.rows if row.case in CLAIM.cases(True)])
    assert CLAIM.judge(quick).kind == "holds up to"
    assert CLAIM.panels(quick)
    assert CLAIM.facts(quick)


@pytest.mark.models
def test_the_real_encoder_loses_order_with_its_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    bench: Bench = small_bench(monkeypatch)
    bare, whole = (order.encoder(bench, kind, 0) for kind in ("none", "learned"))
    for name in ("moved", "english", "chinese"):
        assert bare[name] < ROUNDING < whole[name]
    again = order.encoder(bench, "learned", 0)
    assert again == whole
