"""Sums over a corpus from which means and intervals come: one set of arrays per layer, which simply add up.

A statistic is a ratio: a sum over cases (rows that count) and how many there are. Texts are clusters: their rows
are alike, so the interval is that of a ratio estimator over texts and not over rows (Cochran 1977, section 2.11).
The pieces of a cut text are one cluster: its sums stay open, under its number, until all its pieces are in.

Everything is kept in two halves of the texts (`halves`), so that heads can be chosen on one, told of on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from headwise.see.texts.batches import Cut

__all__ = [
    "LEAST_TEXTS",
    "LayerTally",
    "added",
    "error",
    "interval",
    "mean",
    "of_both",
    "of_half",
    "row_tally",
]

LEAST_TEXTS = 5
"""Of fewer different texts no interval is told: with two to four Student's t says next to nothing."""

LayerTally = Mapping[str, np.ndarray]
"""The sums of one layer, float64.

`sum`, `count`, `sum_squared`, `sum_count`, `count_squared`, `texts` [half, statistic, head]: over texts t with
cases, S_t, c_t, S_t^2, S_t c_t, c_t^2 and 1; `uniform`, `unseen` [half, probe, head] and `offsets` [half, probe,
offset] (`evidence`); `received`, `seen_by` [head, position]; `pooled` [head, query_cell, key_cell] summed over
texts, `pooled_texts` [query_cell] how many have a query there; and as maxima `pooled_max` (like pooled), `verified`
[head], `kv_group` [head]. `kernel` and `portable` [] count the calls each path computed.
`sum` and `count` hold every row; what intervals need waits for the last piece of a cut text. Until then it is in
`open_text` [open] (its number), `open_half` [open], `open_pieces` and `open_seen` [open] (how many it has and how
many are in, int64), and `open_sum` and `open_count` [open, statistic, head] (S_t and c_t so far).
"""

_HALVED = (
    *("sum", "count", "sum_squared", "sum_count", "count_squared", "texts"),
    *("uniform", "unseen", "offsets"),
)
_MAXIMA = {"pooled_max", "kv_group", "verified"}
_OPEN = ("open_text", "open_half", "open_pieces", "open_seen", "open_sum", "open_count")


def row_tally(
    sums: Float[np.ndarray, "layer statistic row head"],
    counts: Float[np.ndarray, "layer statistic row head"],
    halves: Int[np.ndarray, " row"],
    cuts: Sequence[Cut | None] | None = None,
) -> list[dict[str, np.ndarray]]:
    """What the rows of one batch add to the sums of each of some layers.

    `halves` says in which half of the texts each row is, 0 or 1, and `cuts` which rows are pieces.
    """
    cuts = [None] * sums.shape[2] if cuts is None else cuts
    whole = np.array([cut is None for cut in cuts], dtype=bool)
    pieces = {cut.text: cut.pieces for cut in cuts if cut is not None}
    rows = [[i for i, c in enumerate(cuts) if c is not None and c.text == t] for t in pieces]
    in_half = [halves == half for half in (0, 1)]
    found = []
    for s, c in zip(sums, counts, strict=True):
        squares = [_squares(s[:, whole & rows], c[:, whole & rows]) for rows in in_half]
        tally = {name: np.stack([one[name] for one in squares]) for name in squares[0]}
        tally |= {
            "sum": np.stack([s[:, rows].sum(1) for rows in in_half]),
            "count": np.stack([c[:, rows].sum(1) for rows in in_half]),
            "open_text": np.array(list(pieces), dtype=np.int64),
            "open_half": np.array([halves[at[0]] for at in rows], dtype=np.int64),
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


def of_both(tally: LayerTally) -> dict[str, np.ndarray]:
    """The sums of both halves together, their axis gone."""
    tally = _closed(tally, all_of_them=True)
    return {**tally, **{name: tally[name].sum(0) for name in _HALVED}}


def of_half(tally: LayerTally, half: int) -> dict[str, np.ndarray]:
    """The sums of one half, the axis of halves gone."""
    tally = _closed(tally, all_of_them=True)
    return {**tally, **{name: tally[name][half] for name in _HALVED}}


def mean(sums: LayerTally) -> Float[np.ndarray, "statistic head"]:
    """The mean over all cases, of sums without halves; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = sums["sum"] / sums["count"]
    return found


def interval(sums: LayerTally, copies: float = 1.0) -> Float[np.ndarray, "statistic head"]:
    """Half the width of the 95 % interval of the mean, Student's t with `freedom`; NaN with fewer than LEAST_TEXTS.

    Args:
        sums: of both halves, or of one.
        copies: how often each text was read, on average.
    """
    from scipy.special import stdtrit  # here: it takes a while to import

    found: np.ndarray = stdtrit(freedom(sums, copies), 0.975) * error(sums, copies)
    return found


def error(sums: LayerTally, copies: float = 1.0) -> Float[np.ndarray, "statistic head"]:
    """The standard error of the mean over texts; NaN with fewer than LEAST_TEXTS different ones.

    With residuals d_t = S_t - mean c_t of n texts, the variance of the mean is
    n / (n - 1) sum d_t^2 / (sum c_t)^2; of texts that were each read `copies` times, as many times that.
    """
    ratio, texts = mean(sums), sums["texts"]
    squares = sums["sum_squared"] - 2 * ratio * sums["sum_count"] + ratio**2 * sums["count_squared"]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = copies * texts / (texts - 1) * squares.clip(0) / sums["count"] ** 2
    enough = texts / copies > LEAST_TEXTS - 0.5
    found: np.ndarray = np.sqrt(np.where(enough, variance, np.nan))
    return found


def freedom(sums: LayerTally, copies: float = 1.0) -> Float[np.ndarray, "statistic head"]:
    """Degrees of freedom of the interval, at least 1: one less than the effective number of texts.

    That is how many texts of equal numbers of cases would say as much, (sum c_t)^2 / sum c_t^2 (Kish 1965), less
    copies: where one text holds most of the cases there is little to tell how much texts differ.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        texts = sums["count"] ** 2 / sums["count_squared"] / copies
    found: np.ndarray = np.fmax(texts - 1, 1.0)
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
    found = {"open_text": texts}
    found |= {name: both[name][first] for name in ("open_half", "open_pieces")}
    for name in ("open_seen", "open_sum", "open_count"):
        found[name] = np.zeros((len(texts), *both[name].shape[1:]), both[name].dtype)
        np.add.at(found[name], at, both[name])
    return found


def _closed(tally: LayerTally, all_of_them: bool = False) -> dict[str, np.ndarray]:
    """The same with those open texts counted whose pieces are all in, or with every one."""
    done = (tally["open_seen"] >= tally["open_pieces"]) | all_of_them
    if not done.any():
        return dict(tally)
    found = {**tally, **{name: tally[name][~done] for name in _OPEN}}
    for half in (0, 1):
        chosen = done & (tally["open_half"] == half)
        sums, counts = (tally[name][chosen].swapaxes(0, 1) for name in ("open_sum", "open_count"))
        for name, array in _squares(sums, counts).items():
            found[name] = found[name].copy()
            found[name][half] += array
    return found
