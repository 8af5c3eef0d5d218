"""The table of importance: errors, halves, how many texts settle the order, original ids, files, refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from importance_help import ROWS, score, scores, small_decoder

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.ranking.files import load_importance, save_importance
from headwise.cut.ranking.importance import importance
from headwise.cut.ranking.scores import RowScores
from headwise.cut.ranking.settling import halves_of_rows, means, settles, spearman
from headwise.names import ConfigError, HeadError, ModelError, OutputError, TextError


def rows_of(scores: np.ndarray, counts: np.ndarray | None = None) -> RowScores:
    n = len(scores)
    counts = np.ones(n, dtype=np.int64) if counts is None else counts
    return RowScores(scores, np.zeros(n), counts, np.arange(n, dtype=np.uint64))


def noisy(texts: int, heads: int, noise: float, seed: int) -> np.ndarray:
    """Scores of texts around the true ones of heads, 0 to 1."""
    draw = np.random.default_rng(seed)
    return np.linspace(0, 1, heads) + noise * draw.standard_normal((texts, heads))


def test_errors_are_what_repetition_shows() -> None:
    """Against the spread of the mean over many draws of texts, of unequal lengths."""
    draw = np.random.default_rng(0)
    found, errors = [], []
    for _ in range(400):
        counts = draw.integers(1, 9, 30)
        each = draw.standard_normal((30, 2)) * [1, 3] + [2, 0]
        mean, error = means(rows_of(each * counts[:, None], counts))
        found.append(mean)
        errors.append(error)
    np.testing.assert_allclose(np.std(found, 0), np.mean(errors, 0), rtol=0.1)
    np.testing.assert_allclose(np.mean(found, 0), [2, 0], atol=0.12)


def test_copies_of_a_text_tell_no_more() -> None:
    scores = noisy(20, 5, 0.5, 1)
    once = rows_of(scores)
    twice = RowScores(*(np.concatenate([x, x]) for x in vars(once).values()))
    np.testing.assert_allclose(means(twice)[1], means(once)[1], rtol=1e-12)
    assert halves_of_rows(twice).stability == pytest.approx(halves_of_rows(once).stability)


def test_the_number_of_texts_predicts_when_the_order_settles() -> None:
    """Two samples of so many fresh texts correlate by .95."""
    heads, noise, texts = 60, 2.0, 80
    said = [
        settles(halves_of_rows(rows_of(noisy(texts, heads, noise, seed))).stability, texts)
        for seed in range(8)
    ]
    number = int(np.mean(said))
    reached = [
        spearman(
            noisy(number, heads, noise, 100 + seed).mean(0),
            noisy(number, heads, noise, 200 + seed).mean(0),
        )
        for seed in range(20)
    ]
    assert np.mean(reached) == pytest.approx(0.95, abs=0.015)
    assert number != pytest.approx(texts, rel=0.2)


def test_settling_at_the_ends() -> None:
    assert math.isnan(settles(math.nan, 5))
    assert settles(0.0, 5) == math.inf
    assert settles(1.0, 40) == 1
    assert settles(0.95, 40) == 20


def test_spearman() -> None:
    a = np.array([3.0, 1.0, 2.0, np.nan, 2.0])
    assert spearman(a, np.array([30, 10, 20, 5, 20.0])) == pytest.approx(1)
    assert spearman(a, -np.array([30, 10, 20, 5, 20.0])) == pytest.approx(-1)
    assert math.isnan(spearman(a, np.ones(5)))


def test_the_order_of_the_texts_does_not_matter() -> None:
    model = small_decoder()
    wanted = importance(model, ROWS, quiet=True)
    found = importance(model, ROWS[torch.tensor([4, 1, 5, 0, 3, 2])], quiet=True)
    for name in wanted.data_vars:
        np.testing.assert_allclose(
            scores(found, model, str(name)), scores(wanted, model, str(name)), rtol=1e-3, atol=1e-7
        )
    assert found.attrs["stability"] == pytest.approx(wanted.attrs["stability"], abs=1e-6)
    assert -1 <= found.attrs["stability"] < 1
    assert found.attrs["texts"] == found.attrs["rows"] == 6


def test_the_halves_make_up_the_whole() -> None:
    model = small_decoder()
    found = importance(model, ROWS, quiet=True)
    halves = [scores(found, model, f"importance_{half}") for half in ("first", "second")]
    np.testing.assert_allclose(sum(halves) / 2, scores(found, model), rtol=1e-4)
    assert np.abs(halves[0] - halves[1]).max() > 1e-4
    assert (scores(found, model, "standard_error") > 0).all()


def test_heads_keep_their_ids_after_a_cut() -> None:
    model = small_decoder(num_kv_heads=4)
    whole = importance(model, ROWS, "leave-one-out", quiet=True)
    smaller = cut_heads(model, ["0.1", "2.0", "2.3"])
    found = importance(smaller, ROWS, "leave-one-out", quiet=True)
    assert dict(found.sizes) == dict(whole.sizes)
    for id in ("0.1", "2.0", "2.3"):
        assert math.isnan(score(found, id))
        assert score(found, id, "kv_group") == -1
    assert np.isfinite(scores(found, smaller)).all()
    assert score(found, "2.1", "kv_group") == 1
    with hw.ablate(model, "0.1, 2.0, 2.3"):
        same = importance(model, ROWS, "leave-one-out", heads="0.2, 2.1", quiet=True)
    for id in ("0.2", "2.1"):
        assert score(found, id) == pytest.approx(score(same, id), abs=1e-5)


def test_groups_are_shown() -> None:
    found = importance(small_decoder(), ROWS, quiet=True)
    assert found["kv_group"].values.tolist() == [[0, 0, 1, 1]] * 3


def test_layers_divided_by_their_length() -> None:
    model = small_decoder()
    plain = importance(model, ROWS, quiet=True)
    found = importance(model, ROWS, normalise=True, quiet=True)
    np.testing.assert_allclose((found["importance"].values ** 2).sum(1), 1, rtol=1e-6)
    ratio = (found["importance"] / found["standard_error"]).values
    np.testing.assert_allclose(
        ratio, (plain["importance"] / plain["standard_error"]).values, rtol=1e-6
    )


def test_saved_and_read(tmp_path: Path) -> None:
    model = small_decoder()
    found = importance(model, ROWS, "taylor2", quiet=True)
    save_importance(found, tmp_path / "a.nc")
    read = load_importance(tmp_path / "a.nc")
    assert read.identical(found)
    for kind in ("csv", "json", "parquet"):
        save_importance(found, tmp_path / f"a.{kind}")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(lines) == 1 + len(census(model).heads)
    assert lines[0].startswith("stream,layer,head,kv_group,importance,standard_error")
    assert '"id":"2.3"' in (tmp_path / "a.json").read_text()
    before = (tmp_path / "a.nc").read_bytes()
    with pytest.raises(OutputError):
        save_importance(found, tmp_path / "none" / "a.nc")
    with pytest.raises(OutputError):
        save_importance(found, tmp_path / "a.txt")
    assert (tmp_path / "a.nc").read_bytes() == before
    with pytest.raises(ModelError, match="an importance"):
        load_importance(tmp_path / "a.csv")


def test_mistakes_are_said(unchecked: None) -> None:
    model = small_decoder()
    with pytest.raises(ConfigError, match=r"method='gates' is not known; use one of gate, fisher"):
        importance(model, ROWS, "gates")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match='use "row" or "token"'):
        importance(model, ROWS, per="head")  # type: ignore[arg-type]
    with pytest.raises(HeadError, match=r"9\.0 is not there"):
        importance(model, ROWS, heads="9.0")
    with pytest.raises(ModelError, match="takes a model from load"):
        importance(model.module, ROWS)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="importance takes texts"):
        importance(model, 5)  # type: ignore[arg-type]


def test_it_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    model = small_decoder()
    told: list[tuple[float, int | None, int]] = []
    importance(model, ROWS, "leave-one-out", progress=lambda *said: told.append(said), quiet=True)
    assert told[-1] == (6, 6, ROWS.numel())
    assert [texts for texts, _, _ in told] == sorted(texts for texts, _, _ in told)
    assert len(told) > 3
    assert capsys.readouterr().err == ""
