"""Sums over a corpus from which means and intervals come: one set of arrays per layer, which simply add up.

A statistic is a ratio: a sum over cases (rows that count) and how many there are. Texts are clusters: their rows
are alike, so the interval is that of a ratio estimator over texts and not over rows (Cochran 1977, section 2.11).
The pieces of a cut text are one cluster: its sums stay open, under its number, until all its pieces are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from headwise.see.texts.batches import Cut

__all__ = ["LEAST_TEXTS", "LayerTally", "added", "interval", "mean", "row_tally"]

LEAST_TEXTS = 5
"""Of fewer texts no interval is told: with two to four Student's t says next to nothing."""

LayerTally = Mapping[str, np.ndarray]
"""The sums of one layer, float64.

`sum`, `count`, `sum_squared`, `sum_count`, `count_squared`, `texts` [statistic, head]: over texts t with cases,
S_t, c_t, S_t^2, S_t c_t, c_t^2 and 1; `received`, `seen_by` [head, position]; `pooled` [head, query_cell, key_cell]
summed over texts, `pooled_texts` [query_cell] how many have a query there; and as maxima `pooled_max` (like
pooled), `verified` [head], `kv_heads` []. `kernel` and `portable` [] count the calls each path computed.
`sum` and `count` hold every row; what intervals need waits for the last piece of a cut text. Until then it is in
`open_text` [open] (its number), `open_pieces` and `open_seen` [open] (how many it has and how many are in, int64),
and `open_sum` and `open_count` [open, statistic, head] (S_t and c_t so far).
"""

_MAXIMA = {"pooled_max", "kv_heads", "verified"}
_OPEN = ("open_text", "open_pieces", "open_seen", "open_sum", "open_count")


def row_tally(
    sums: Float[np.ndarray, "layer statistic row head"],
    counts: Float[np.ndarray, "layer statistic row head"],
    cuts: Sequence[Cut | None] | None = None,
) -> list[dict[str, np.ndarray]]:
    """What the rows of one batch add to the sums of each of some layers; `cuts` says which rows are pieces."""
    cuts = [None] * sums.shape[2] if cuts is None else cuts
    whole = [i for i, cut in enumerate(cuts) if cut is None]
    pieces = {cut.text: cut.pieces for cut in cuts if cut is not None}
    rows = [[i for i, c in enumerate(cuts) if c is not None and c.text == t] for t in pieces]
    found = []
    for s, c in zip(sums, counts, strict=True):
        tally = {"sum": s.sum(1), "count": c.sum(1), **_squares(s[:, whole], c[:, whole])}
        tally |= {
            "open_text": np.array(list(pieces), dtype=np.int64),
            "open_pieces": np.array(list(pieces.values()), dtype=np.int64),
            "open_seen": np.array([len(at) for at in rows], dtype=np.int64),
            "open_sum": _of_each(s, rows),
            "open_count": _of_each(c, rows),
        }
        found.append(_closed(tally))
    return found


def added(one: LayerTally | None, other: LayerTally) -> dict[str, np.ndarray]:
    """Both together."""
    if one is None:
        return dict(other)
    join = {True: np.maximum, False: np.add}
    found = {
        name: join[name in _MAXIMA](one[name], other[name]) for name in other if name not in _OPEN
    }
    return _closed({**found, **_open_of(one, other)})


def mean(tally: LayerTally) -> Float[np.ndarray, "statistic head"]:
    """The mean over all cases; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = tally["sum"] / tally["count"]
    return found


def interval(tally: LayerTally) -> Float[np.ndarray, "statistic head"]:
    """Half the width of the 95 % interval of the mean, Student's t over texts; NaN with fewer than LEAST_TEXTS.

    With residuals d_t = S_t - mean c_t of n texts, the variance of the mean is
    n / (n - 1) sum d_t^2 / (sum c_t)^2.
    """
    tally = _closed(tally, all_of_them=True)
    ratio, texts = mean(tally), tally["texts"]
    squares = (
        tally["sum_squared"] - 2 * ratio * tally["sum_count"] + ratio**2 * tally["count_squared"]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = texts / (texts - 1) * squares.clip(0) / tally["count"] ** 2
    from scipy.special import stdtrit  # here: it takes a while to import

    t = stdtrit(np.maximum(texts - 1, 1), 0.975)
    found: np.ndarray = t * np.sqrt(np.where(texts >= LEAST_TEXTS, variance, np.nan))
    return found


def _squares(
    sums: Float[np.ndarray, "statistic text head"], counts: Float[np.ndarray, "statistic text head"]
) -> dict[str, np.ndarray]:
    """What whole texts add to the sums of which the intervals are made."""
    return {
        "sum_squared": (sums**2).sum(1),
        "sum_count": (sums * counts).sum(1),
        "count_squared": (counts**2).sum(1),
        "texts": (counts > 0).sum(1).astype(float),
    }


def _of_each(
    x: Float[np.ndarray, "statistic row head"], rows: Sequence[Sequence[int]]
) -> Float[np.ndarray, "open statistic head"]:
    """The sum over the rows of each cut text."""
    found = np.zeros((len(rows), x.shape[0], x.shape[2]))
    for i, at in enumerate(rows):
        found[i] = x[:, at].sum(1)
    return found


def _open_of(one: LayerTally, other: LayerTally) -> dict[str, np.ndarray]:
    """The open texts of both, the pieces of one text together."""
    both = {name: np.concatenate([one[name], other[name]]) for name in _OPEN}
    texts, first, at = np.unique(both["open_text"], return_index=True, return_inverse=True)
    found = {"open_text": texts, "open_pieces": both["open_pieces"][first]}
    for name in ("open_seen", "open_sum", "open_count"):
        found[name] = np.zeros((len(texts), *both[name].shape[1:]), both[name].dtype)
        np.add.at(found[name], at, both[name])
    return found


def _closed(tally: LayerTally, all_of_them: bool = False) -> dict[str, np.ndarray]:
    """The same with those open texts counted whose pieces are all in, or with every one."""
    done = (tally["open_seen"] >= tally["open_pieces"]) | all_of_them
    if not done.any():
        return dict(tally)
    sums, counts = (tally[name][done].swapaxes(0, 1) for name in ("open_sum", "open_count"))
    more = {name: tally[name] + array for name, array in _squares(sums, counts).items()}
    return {**tally, **more, **{name: tally[name][~done] for name in _OPEN}}
