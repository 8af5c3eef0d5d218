"""C6: what the claim about the number of heads measures, and that its verdict can come out either way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_help import named, small_bench

from headwise.lab.claims.heads import (
    CLAIM,
    HEADS,
    VASWANI,
    best_of,
    built,
    letters,
    over_best,
    pieces,
)
from headwise.lab.results import Results, Row


def made(curve: dict[int, float], noise: float, seeds: int = 5) -> Results:
    """Losses along a curve, with a seed's luck that all its cases share and some of their own."""
    luck = np.random.default_rng(3)
    rows = []
    for seed in range(seeds):
        shared = luck.normal(0, 0.5)
        for heads, loss in curve.items():
            numbers = {"loss": loss + shared + noise * luck.normal(), "head_dim": 64 / heads}
            rows.append(Row(letters(heads), seed, {**numbers, "parameters": 132864.0}))
    return Results(rows)


BENT = {h: 2.85 + 0.03 * abs(math.log2(h) - 2) for h in HEADS}
FALLING = {h: 3.0 - 0.03 * math.log2(h) for h in HEADS}


@pytest.mark.parametrize(
    ("curve", "noise", "kind"),
    [(BENT, 0.005, "holds"), (FALLING, 0.005, "fails here"), (BENT, 0.4, "not settled")],
)
def test_verdict(curve: dict[int, float], noise: float, kind: str) -> None:
    verdict = CLAIM.judge(made(curve, noise))
    assert verdict.kind == kind
    assert [finding.name for finding in verdict.findings] == ["too few", "too many"]


def test_a_falling_loss_fails_at_the_upper_end_alone() -> None:
    few, many = CLAIM.judge(made(FALLING, 0.005)).findings
    assert few.holds is True
    assert many.holds is False


def test_equal_heads_do_not_look_as_if_the_ends_lost() -> None:
    """Compared with each run's own lowest mean, one in several of these would be said to lose at both ends."""
    flat = dict.fromkeys(HEADS, 2.85)
    luck = np.random.default_rng(0)
    overs = []
    for _ in range(60):
        rows = [
            Row(letters(h), s, {"loss": x + luck.normal()})
            for s in range(5)
            for h, x in flat.items()
        ]
        overs.append(over_best(Results(rows), 1).mean)
    assert abs(float(np.mean(overs))) < 3 * float(np.std(overs)) / math.sqrt(len(overs))


def test_no_seed_chooses_what_it_is_compared_with() -> None:
    # over the other seeds h = 2 is the best for each, though seed 1 has its lowest loss at h = 4
    losses = {1: [2.0, 2.0, 2.0], 2: [1.0, 1.0, 1.0], 4: [1.5, 0.9, 1.5]}
    rows = [Row(letters(h), s, {"loss": x}) for h, by in losses.items() for s, x in enumerate(by)]
    assert over_best(Results(rows), 1).mean == pytest.approx(1.0)
    assert over_best(Results(rows), 2).mean == pytest.approx(-0.3)


def test_the_best_are_those_that_cannot_be_told_apart() -> None:
    assert best_of(made(BENT, 0.002)) == "4"
    flat = {**BENT, 8: BENT[4]}
    assert best_of(made(flat, 0.01)) == "4, 8"


def test_one_seed_settles_nothing() -> None:
    assert CLAIM.judge(made(BENT, 0.005, seeds=1)).kind == "not settled"


def test_every_h_has_the_same_weights_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    cases = [case for case in CLAIM.cases(False) if case["tokens"] == "bytes"]
    for positions in ("rope", "sinusoidal"):
        first, *others = (
            built(bench, case, 3).state_dict() for case in cases if case["positions"] == positions
        )
        assert len(others) > 1
        for other in others:
            assert other.keys() == first.keys()
            assert all(bool((other[name] == first[name]).all()) for name in first)


def test_measures_each_h(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    found = {int(c["heads"]): CLAIM.measure(bench, c, 0) for c in CLAIM.cases(False)[:2]}
    assert {h: numbers["head_dim"] for h, numbers in found.items()} == {1: 64, 2: 32}
    assert found[1]["loss"] != found[2]["loss"]
    assert found[1]["parameters"] == found[2]["parameters"]
    assert CLAIM.measure(bench, letters(2), 0) == found[2]


def test_pieces_are_told_and_decide_nothing() -> None:
    results = made(BENT, 0.005)
    rows = [Row(pieces(h), s, {"loss": 3.0 + s / 100}) for h in (1, 8) for s in range(5)]
    verdict = CLAIM.judge(Results([*results.rows, *rows]))
    assert verdict.kind == "holds"
    assert verdict.findings[-1].value.mean == pytest.approx(0)
    assert verdict.findings[-1].holds is None


def test_what_is_told_beside_says_which_way_it_goes() -> None:
    results = made(BENT, 0.005)
    cases = [(letters(h, "sinusoidal"), 3.0 + 0.1 * (h != 8)) for h in (1, 8, 64)]
    cases += [(pieces(1), 3.4), (pieces(8), 3.0)]
    rows = [Row(c, s, {"loss": x + 0.001 * s * (x > 3)}) for c, x in cases for s in range(5)]
    beside = CLAIM.judge(Results([*results.rows, *rows])).findings[2:]
    assert [one.name for one in beside] == ["too few, alike", "too many, alike", "too few, pieces"]
    assert [one.holds for one in beside] == [True, True, True]


def test_bytes_and_pieces_are_read_by_their_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    assert bench.letters.tokenizer.get_vocab_size() == 257
    assert bench.tokenizer.get_vocab_size() == 280
    of_bytes, of_pieces = (CLAIM.measure(bench, case(2), 0) for case in (letters, pieces))
    assert of_bytes["parameters"] < of_pieces["parameters"]


def test_panels_and_facts_stand_beside_the_paper() -> None:
    results = made(BENT, 0.005)
    ours, beside = CLAIM.panels(results)
    assert list(ours.lines[0].x) == list(HEADS)
    assert list(beside.lines[1].x) == list(VASWANI)
    assert min(beside.lines[1].y) == 0
    facts = CLAIM.facts(results)
    assert named("heads") <= facts.keys()
    assert facts["paper_few"] == "7.7 %"
    assert facts["seeds"] == "5"
