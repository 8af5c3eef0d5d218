"""Intervals: those of a ratio estimator over texts, by direct computation and by resampling texts."""

from __future__ import annotations

import numpy as np
import pytest
from profile_help import TEXTS, cases
from scipy import stats

import headwise as hw
from headwise.see.profile.profiler import Profiler
from headwise.see.profile.tally import interval, mean, of_both, row_tally
from headwise.see.texts.packing import packed

MORE = [*TEXTS, "cc dd cc", "all in all it was all", "xyzzy, xyzzy"]


def quantile(counts: np.ndarray) -> float:
    """Student's t at .975 with one less than the effective number of texts, sum(c)^2 / sum(c^2)."""
    return float(stats.t.ppf(0.975, max(counts.sum() ** 2 / (counts**2).sum() - 1, 1)))


"""Student's t, two-sided 95 %, from the printed tables."""


@pytest.mark.parametrize("name", ["entropy", "previous", "induction", "same_token_hits"])
def test_intervals_are_those_of_each_text_s_sum_and_count(bytes_model, name: str) -> None:
    table = hw.profile(bytes_model, MORE)
    for head in (hw.HeadId("", 0, 1), hw.HeadId("", 1, 4)):
        pairs = [cases(record, 8)[name, head] for record in hw.look(bytes_model, MORE)]
        sums, counts = np.array([pair for pair in pairs if pair[1]], dtype=float).T
        ratio, n = sums.sum() / counts.sum(), len(sums)
        assert n >= 5
        off = sums - ratio * counts
        error = np.sqrt(n / (n - 1) * (off**2).sum()) / counts.sum()
        most = 9 if name == "entropy" else 1
        low, high = (table[f"{name}_{end}"][head.layer, head.head] for end in ("low", "high"))
        t = quantile(counts)
        np.testing.assert_allclose(low, max(ratio - t * error, 0), atol=1e-4)
        np.testing.assert_allclose(high, min(ratio + t * error, most), atol=1e-4)


@pytest.mark.parametrize(("count", "known"), [(1, False), (4, False), (5, True)])
def test_few_texts_have_no_interval(bytes_model, count: int, known: bool) -> None:
    table = hw.profile(bytes_model, MORE[:count])
    assert np.isfinite(table.entropy).all()
    for end in ("low", "high"):
        assert np.isfinite(table[f"entropy_{end}"]).all() == known
        assert np.isfinite(table[f"entropy_{end}"]).any() == known
    assert "5 texts" in table.attrs["interval"]


def test_intervals_stay_within_what_can_be(bytes_model) -> None:
    table = hw.profile(bytes_model, MORE)
    unit = ["evenness", "largest", "top", "previous", "previous_hits", "self", "self_hits"]
    for name in (*unit, "entropy", "distance", "result_norm"):
        low, high = table[f"{name}_low"], table[f"{name}_high"]
        assert np.isfinite(low).any()
        assert not (low < 0).any(), name
        assert not (high > 1).any() or name not in unit, name
        assert not (high < table[name] - 1e-6).any(), name
    names = ("induction", "same_token_hits", "induction_hits", "same_token", "first_hits", "top")
    assert any(((table[f"{name}_low"] == 0) & (table[name] > 0)).any() for name in names)
    assert any(((table[f"{name}_high"] == 1) & (table[name] < 1)).any() for name in names)
    assert (table.result_share_low < 0).any()


def of_texts(model, texts: list[str], context: int) -> tuple[np.ndarray, np.ndarray]:
    """For each text the sum and the count of entropy over the rows of all its pieces, [text, layer, head]."""
    found = []
    for text in texts:
        table = hw.profile(model, text, context=context)
        found.append((table.entropy * table.entropy_count, table.entropy_count))
    return tuple(np.array(column) for column in zip(*found, strict=True))


@pytest.mark.parametrize("tokens", [4096, 9], ids=["one batch", "pieces in many batches"])
def test_pieces_of_a_text_are_one_cluster(bytes_model, monkeypatch, tokens: int) -> None:
    texts = [text * 4 for text in MORE]
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", tokens)
    sums, counts = of_texts(bytes_model, texts, 7)
    ratio, n = sums.sum(0) / counts.sum(0), len(texts)
    error = np.sqrt(n / (n - 1) * ((sums - ratio * counts) ** 2).sum(0)) / counts.sum(0)
    table = hw.profile(bytes_model, texts, context=7)
    assert table.attrs["pieces"] > 2 * n
    np.testing.assert_allclose(table.entropy, ratio, atol=1e-5)
    np.testing.assert_allclose(
        table.entropy_high, ratio + quantile(counts[:, 0, 0]) * error, atol=1e-4
    )


def test_pieces_of_a_text_in_two_processes_are_one_cluster(bytes_model, monkeypatch) -> None:
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 9)
    texts = [text * 3 for text in MORE]
    batches = list(packed(bytes_model, texts, context=7))
    one, other, whole = (Profiler(bytes_model) for _ in range(3))
    for i, batch in enumerate(batches):
        (one, other)[i % 2].add(batch)
        whole.add(batch)
    assert all(tally["open_text"].size for tally in one._layers.values())
    other.merge(one.state())
    later = Profiler(bytes_model)
    later.restore(other.state())
    np.testing.assert_allclose(later.dataset().entropy_low, whole.dataset().entropy_low, rtol=1e-9)
    assert not any(tally["open_text"].size for tally in later._layers.values())
    few = Profiler(bytes_model)  # stopped while texts are open
    for batch in batches[:-3]:
        few.add(batch)
    assert np.isfinite(few.dataset().entropy_low).all()


def test_intervals_are_as_wide_as_resampling_texts_says() -> None:
    random = np.random.default_rng(0)
    counts = random.integers(5, 60, 300).astype(float)
    sums = counts * (0.4 + 0.2 * random.normal(size=300)) + 0.002 * counts**2
    halves = random.integers(0, 2, 300)
    (tally,) = row_tally(sums[None, None, :, None], counts[None, None, :, None], halves)
    tally |= {name: np.zeros((2, 0, 1)) for name in ("uniform", "unseen", "offsets")}
    one = of_both(tally)
    drawn = random.integers(0, 300, (4000, 300))
    ratios = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    assert float(mean(one)[0, 0]) == pytest.approx(sums.sum() / counts.sum())
    assert float(interval(one)[0, 0]) == pytest.approx((high - low) / 2, rel=0.05)
