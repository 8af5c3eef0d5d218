"""Intervals: those of a ratio estimator over texts, by direct computation and by resampling texts."""

from __future__ import annotations

import numpy as np
import pytest
from profile_help import TEXTS, cases

import headwise as hw
from headwise.see.profile.tally import interval, mean, row_tally

TABLE = {
    1: 12.7062,
    2: 4.3027,
    3: 3.1824,
    4: 2.7764,
    9: 2.2622,
    10: 2.2281,
    30: 2.0423,
    120: 1.9799,
}
"""Student's t, two-sided 95 %, from the printed tables."""


@pytest.mark.parametrize("name", ["entropy", "previous", "induction", "same_token_hits"])
def test_intervals_are_those_of_each_text_s_sum_and_count(bytes_model, name: str) -> None:
    table = hw.profile(bytes_model, TEXTS)
    for head in (hw.HeadId("", 0, 1), hw.HeadId("", 1, 4)):
        pairs = [cases(record, 8)[name, head] for record in hw.look(bytes_model, TEXTS)]
        sums, counts = np.array([pair for pair in pairs if pair[1]], dtype=float).T
        ratio, n = sums.sum() / counts.sum(), len(sums)
        assert n > 1
        off = sums - ratio * counts
        error = np.sqrt(n / (n - 1) * (off**2).sum()) / counts.sum()
        low, high = (table[f"{name}_{end}"][head.layer, head.head] for end in ("low", "high"))
        np.testing.assert_allclose(low, ratio - TABLE[n - 1] * error, atol=1e-4)
        np.testing.assert_allclose(high, ratio + TABLE[n - 1] * error, atol=1e-4)


def test_one_text_has_no_interval(bytes_model) -> None:
    table = hw.profile(bytes_model, "one two one two")
    assert np.isfinite(table.entropy).all()
    assert np.isnan(table.entropy_low).all()
    assert np.isnan(table.entropy_high).all()


def test_intervals_are_as_wide_as_resampling_texts_says() -> None:
    random = np.random.default_rng(0)
    counts = random.integers(5, 60, 300).astype(float)
    sums = counts * (0.4 + 0.2 * random.normal(size=300)) + 0.002 * counts**2
    tally = row_tally(sums[None, None, :, None], counts[None, None, :, None])
    one = {name: array[0] for name, array in tally.items()}
    drawn = random.integers(0, 300, (4000, 300))
    ratios = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    assert float(mean(one)[0, 0]) == pytest.approx(sums.sum() / counts.sum())
    assert float(interval(one)[0, 0]) == pytest.approx((high - low) / 2, rel=0.05)
