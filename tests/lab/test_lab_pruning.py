"""Cutting a trained model, beside those that were small from the start: what is measured, and verdicts."""

from __future__ import annotations

import pytest
import torch

from headwise.lab.claims import pruning
from headwise.lab.results import Results, Row

CASES = pruning.CLAIM.cases(True)


def rows(rise=(0.01, 0.05, 0.4), small=0.1, mini=(0.02, 0.3, 0.5), wide=0.0):
    """Four seeds: rises as shares of that without any head, and what small models lose against tuned ones."""
    found = []
    shares = {"trained here": dict(zip((12, 8, 4), rise, strict=True))}
    shares["mini"] = dict(zip((12, 8, 4), mini, strict=True))
    for seed in range(4):
        luck = wide * (seed - 1.5)
        for case in CASES:
            left, of = int(case["heads"]), shares[str(case["model"])]
            cut = {16: 0.0, 0: 1.0}.get(left, of.get(left, 0.0))
            numbers = {"loss": 3.0 + cut + (luck if 0 < left < 16 else 0.0)}
            if case["start"] == "small":
                numbers = {"loss": 2.9 + small + luck}
            elif case["model"] != "mini" and 0 < left < 16:
                numbers |= {"random": 3.6, "tuned": 2.9}
            found.append(Row(case, seed, numbers))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(), "holds up to"),
        (rows(rise=(0.5, 0.6, 0.7)), "fails here"),
        (rows(small=-0.2), "fails here"),
        (rows(wide=0.6), "not settled"),
    ],
)
def test_verdicts(made, kind):
    verdict = pruning.CLAIM.judge(made)
    assert verdict.kind == kind
    assert "nan" not in verdict.says.en + verdict.says.zh


def test_each_rise_is_held_against_a_little():
    held = {one.name: one.holds for one in pruning.CLAIM.judge(rows(wide=0.001)).findings}
    assert [held[f"rise_trained_{left}"] for left in (12, 8, 4)] == [True, True, False]
    assert [held[f"rise_mini_{left}"] for left in (12, 8, 4)] == [True, False, False]


def test_the_verdict_names_how_many_heads_can_go():
    assert "Up to 50%" in pruning.CLAIM.judge(rows()).says.en
    assert "(25% of mini's)" in pruning.CLAIM.judge(rows()).says.en
    assert "Up to 75%" in pruning.CLAIM.judge(rows(rise=(0.01, 0.02, 0.05))).says.en


def test_a_cut_does_not_change_the_model_that_others_are_cut_from(bench, monkeypatch):
    monkeypatch.setattr(type(bench), "steps", property(lambda self: 10))
    cases = [c for c in CASES if c["model"] == "trained here" and c["start"] == "whole"]
    whole, half, none = cases[0], cases[2], cases[4]
    first = pruning.measure(bench, whole, 0)
    cut = pruning.measure(bench, half, 0)
    assert set(cut) == {"loss", "random", "tuned"}
    pruning.measure(bench, none, 0)
    assert pruning.measure(bench, whole, 0) == first


def test_small_ones_have_heads_of_the_same_size(bench, monkeypatch):
    monkeypatch.setattr(type(bench), "steps", property(lambda self: 5))
    held = []
    real = type(bench).decoder
    monkeypatch.setattr(
        type(bench), "decoder", lambda self, *a, **k: held.append(real(self, *a, **k)) or held[-1]
    )
    small = next(c for c in CASES if c["start"] == "small" and c["heads"] == 4)
    pruning.measure(bench, small, 0)
    for block in held[0].blocks:
        assert (block.attention.num_heads, block.attention.head_dim) == (2, 8)


@pytest.mark.models
def test_mini_loses_more_the_more_is_cut(text):
    from headwise.lab.bench import Bench

    bench = Bench(text, quick=True)
    found = [pruning.of_mini(bench, left, 0)["loss"] for left in (16, 8, 0)]
    assert found == sorted(found)
    assert torch.tensor(found).isfinite().all()
