"""Sums over a corpus from which means and intervals come: one set of arrays per layer, which simply add up.

A statistic is a ratio: a sum over cases (rows that count) and how many there are. Texts are clusters: their rows
are alike, so the interval is that of a ratio estimator over texts and not over rows (Cochran 1977, section 2.11).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

__all__ = ["LayerTally", "added", "interval", "mean", "row_tally"]

LayerTally = Mapping[str, np.ndarray]
"""The sums of one layer, float64.

`sum`, `count`, `sum_squared`, `sum_count`, `count_squared`, `texts` [statistic, head]: over texts t with cases,
S_t, c_t, S_t^2, S_t c_t, c_t^2 and 1; `received`, `seen_by` [head, position]; `pooled` [head, query_cell, key_cell]
summed over texts, `pooled_texts` [query_cell] how many have a query there; and as maxima `pooled_max` (like
pooled), `verified` [head], `kv_heads` []. `kernel` and `portable` [] count the calls each path computed.
"""

_MAXIMA = {"pooled_max", "kv_heads", "verified"}


def row_tally(
    sums: Float[np.ndarray, "layer statistic text head"],
    counts: Float[np.ndarray, "layer statistic text head"],
) -> dict[str, np.ndarray]:
    """What the texts of one batch add to the sums of some layers."""
    return {
        "sum": sums.sum(2),
        "count": counts.sum(2),
        "sum_squared": (sums**2).sum(2),
        "sum_count": (sums * counts).sum(2),
        "count_squared": (counts**2).sum(2),
        "texts": (counts > 0).sum(2).astype(float),
    }


def added(one: LayerTally | None, other: LayerTally) -> dict[str, np.ndarray]:
    """Both together."""
    if one is None:
        return dict(other)
    join = {True: np.maximum, False: np.add}
    return {name: join[name in _MAXIMA](one[name], other[name]) for name in other}


def mean(tally: LayerTally) -> Float[np.ndarray, "statistic head"]:
    """The mean over all cases; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = tally["sum"] / tally["count"]
    return found


def interval(tally: LayerTally) -> Float[np.ndarray, "statistic head"]:
    """Half the width of the 95 % interval of the mean, Student's t over texts; NaN with fewer than two.

    With residuals d_t = S_t - mean c_t of n texts, the variance of the mean is
    n / (n - 1) sum d_t^2 / (sum c_t)^2.
    """
    ratio, texts = mean(tally), tally["texts"]
    squares = (
        tally["sum_squared"] - 2 * ratio * tally["sum_count"] + ratio**2 * tally["count_squared"]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = texts / (texts - 1) * squares.clip(0) / tally["count"] ** 2
    from scipy.special import stdtrit  # here: it takes a while to import

    t = stdtrit(np.maximum(texts - 1, 1), 0.975)
    found: np.ndarray = t * np.sqrt(np.where(texts > 1, variance, np.nan))
    return found
