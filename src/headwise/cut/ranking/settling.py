"""Means and errors of scores over rows, how far two halves of the rows agree on the order, and when it settles.

Rows that are pieces or copies of one text are one cluster, in the errors and in the halves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from headwise.cut.ranking.scores import RowScores

__all__ = ["SETTLED", "Halves", "halves_of_rows", "means", "settles", "spearman"]

SETTLED = 0.95
"""The rank correlation of two rankings, each of texts of its own, at which an order counts as settled."""

_SPLITS = 32
"""How many ways to split the rows into halves are averaged."""


@dataclass(frozen=True, eq=False)
class Halves:
    """What two halves of the rows say.

    Attributes:
        first, second: the scores of each half, of one way to split.
        stability: mean rank correlation (Spearman) of both over all ways; NaN with fewer than two texts.
    """

    first: Float[np.ndarray, " head"]
    second: Float[np.ndarray, " head"]
    stability: float


def means(
    rows: RowScores, which: Bool[np.ndarray, " row"] | None = None
) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " head"]]:
    """The score of each head and its standard error, of a ratio of sums over texts as clusters.

    Of a head that was not reached in some rows, those in which it was; NaN where in none, and the error with one.

    Args:
        rows: the scores.
        which: those that are meant; None = all.
    """
    chosen = np.ones(len(rows.counts), dtype=bool) if which is None else which
    scores, counts = rows.scores[chosen], rows.counts[chosen].astype(float)
    there = ~np.isnan(scores)
    sums, weights = np.where(there, scores, 0.0), there * counts[:, None]
    _, cluster = np.unique(rows.marks[chosen], return_inverse=True)
    number = int(cluster.max()) + 1 if len(cluster) else 0
    by_text = np.zeros((2, number, scores.shape[1]))
    np.add.at(by_text[0], cluster, sums)
    np.add.at(by_text[1], cluster, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = by_text[0].sum(0) / by_text[1].sum(0)
        squares = np.square(by_text[0] - mean * by_text[1]).sum(0)
        texts = (by_text[1] > 0).sum(0)
        error = np.sqrt(squares * texts / (texts - 1)) / by_text[1].sum(0)
    return mean, error


def halves_of_rows(rows: RowScores) -> Halves:
    """Split the texts into halves in several ways, which depend on the texts alone."""
    texts = np.unique(rows.marks)
    none = np.full(rows.scores.shape[1], np.nan)
    if len(texts) < 2:
        return Halves(none, none, math.nan)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(_SPLITS):
        half = draw.permutation(texts)[: len(texts) // 2]
        inside = np.isin(rows.marks, half)
        found.append((means(rows, inside)[0], means(rows, ~inside)[0]))
    return Halves(*found[0], float(np.mean([spearman(a, b) for a, b in found])))


def spearman(a: Float[np.ndarray, " head"], b: Float[np.ndarray, " head"]) -> float:
    """Rank correlation over the entries that both have; NaN with fewer than two, or where one is constant."""
    there = np.isfinite(a) & np.isfinite(b)
    ranks = [pd.Series(x[there]).rank().to_numpy() for x in (a, b)]
    if there.sum() < 2 or any(np.ptp(x) == 0 for x in ranks):
        return math.nan
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def settles(stability: float, texts: int) -> float:
    """How many texts it takes until rankings of two such samples correlate by SETTLED.

    If halves of n / 2 texts correlate by s, samples k times as large do by k s / (1 + (k - 1) s) (Spearman 1910,
    Brown 1910), which is solved for k. Asked on 10, 20 and 40 rows of 128 tokens of SmolLM2 it says 50, 48 and 50
    rows for "gate" (two samples of 40 correlate by .939), and 9, 11 and 13 for "fisher" per token (of 10: .948).

    Args:
        stability: rank correlation of two halves.
        texts: in both halves together.

    Returns:
        A whole number; infinity where the halves do not agree at all, NaN where they could not be compared.
    """
    if math.isnan(stability):
        return math.nan
    if stability <= 0:
        return math.inf
    times = SETTLED * (1 - stability) / (stability * (1 - SETTLED))
    return float(max(1, math.ceil(times * texts / 2)))
