"""Training without the causal mask: what is measured, and verdicts."""

from __future__ import annotations

import math

import pytest
import torch

from headwise.lab.claims import peeking
from headwise.lab.results import Results, Row

CASES = {case["mask"]: case for case in peeking.CLAIM.cases(True)}


def rows(bits=0.05, worse=4.0, words=0.4, leaks=(0.0, 1.0), wide=0.0):
    """Four seeds: bits per letter and losses of the model without the mask against an honest one."""
    found = []
    for seed in range(4):
        luck = wide * (seed - 1.5)
        honest = {"training": 2.9, "bits": 1.8, "truth": 3.0, "known": 0.9, "leak": leaks[0]}
        other = {
            "training": 0.1,
            "bits": bits + luck,
            "truth": 3.0 + worse + luck,
            "known": 0.9 - words + luck,
            "leak": leaks[1],
        }
        found += [Row(CASES["causal"], seed, honest), Row(CASES["none"], seed, other)]
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(), "holds"),
        (rows(bits=1.5), "fails here"),
        (rows(worse=-0.5), "fails here"),
        (rows(words=-0.1), "fails here"),
        (rows(leaks=(0.0, 0.0)), "fails here"),
        (rows(leaks=(1.0, 1.0)), "fails here"),
        (rows(worse=0.5, wide=1.0), "not settled"),
    ],
)
def test_verdicts(made, kind):
    verdict = peeking.CLAIM.judge(made)
    assert verdict.kind == kind
    assert "nan" not in verdict.says.en + verdict.says.zh


def test_what_is_not_there_cannot_be_peeked_at(bench):
    """With the mask the loss of a row that ends is that of the whole row; without it, it is not."""
    ids = bench.rows(4)
    decoder = bench.decoder(0)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(4)  # fresh weights of 0.02 hardly look at anything
    for causal in (True, False):
        decoder.causal = causal
        with torch.no_grad():
            whole = decoder(ids).log_softmax(-1)
        ends = range(8, ids.shape[1], 8)
        within = -torch.stack([whole[range(4), end - 1, ids[:, end]] for end in ends]).mean()
        found = peeking.true_loss(bench, decoder, ids)
        assert (found == pytest.approx(float(within), abs=1e-4)) == causal


def test_a_model_that_peeks_is_found_out(bench, monkeypatch):
    monkeypatch.setattr(type(bench), "steps", property(lambda self: 20))
    found = {name: peeking.measure(bench, case, 0) for name, case in CASES.items()}
    assert (found["causal"]["leak"], found["none"]["leak"]) == (0.0, 1.0)
    assert all(0 <= one["known"] <= 1 for one in found.values())


def test_bits_are_of_letters(bench):
    letters = sum(map(len, bench.text.held_out))
    bits = peeking.bits_per_letter(bench, math.log(2)) * letters
    assert bits == pytest.approx(bench.held_out.tokens)
