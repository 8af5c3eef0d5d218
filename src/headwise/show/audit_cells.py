"""The cells of an audit's map: what each position may see, and what it does, before they are drawn."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float, Int

from headwise.check.telling.report import Outcome

__all__ = [
    "CLEAN",
    "LEAK",
    "QUIET",
    "SEEN",
    "UNTRIED",
    "cells_of",
    "leaking",
    "limit_of",
    "maps_of",
    "tried_of",
]

CLEAN, UNTRIED, QUIET, SEEN, LEAK = range(5)
"""May not be seen and is not; was not tried; may be seen, and nothing was; may be
seen and is; may not be seen and is. In this order the larger of two says more, so cells pool by their maximum."""


def maps_of(
    outcome: Outcome,
) -> tuple[Bool[np.ndarray, "query key"], Float[np.ndarray, "query key"]] | None:
    """What is declared and what was measured; None where the outcome holds no map."""
    if outcome.allowed is None or outcome.measured is None:
        return None
    allowed, measured = outcome.allowed.cpu().numpy(), outcome.measured.cpu().double().numpy()
    return allowed.astype(bool), measured


def limit_of(outcome: Outcome) -> float:
    """The influence from which on one counts: the smallest that would have been seen, else what rounding moves."""
    return outcome.smallest if math.isfinite(outcome.smallest) else outcome.floor


def tried_of(outcome: Outcome) -> tuple[int, int] | None:
    """Of how many positions that some must not see, how many were tried; None where there is no map.

    Where the outputs were looked at one by one (by gradients) the positions that must not see some are counted.
    """
    maps = maps_of(outcome)
    if maps is None:
        return None
    forbidden, known = ~maps[0], ~np.isnan(maps[1])
    counts = [
        (int((known & forbidden).any(axis).sum()), int(forbidden.any(axis).sum()))
        for axis in (0, 1)
    ]
    return min(counts, key=lambda count: count[0] / max(count[1], 1))


def leaking(
    outcome: Outcome,
    allowed: Bool[np.ndarray, "query key"],
    measured: Float[np.ndarray, "query key"],
) -> Bool[np.ndarray, "query key"]:
    """Which cells may not be seen and are; none where the outcome is no leak."""
    named: Bool[np.ndarray, "query key"] = np.zeros_like(allowed)
    if not outcome.bad:
        return named
    for query, key in outcome.pairs:
        if query < named.shape[0] and key < named.shape[1]:
            named[query, key] = True
    # NaN compares false: what was not measured is no leak here
    found: Bool[np.ndarray, "query key"] = (named | (measured > limit_of(outcome))) & ~allowed
    return found


def cells_of(
    outcome: Outcome,
    allowed: Bool[np.ndarray, "query key"],
    measured: Float[np.ndarray, "query key"],
) -> Int[np.ndarray, "query key"]:
    """Each cell as one of CLEAN, UNTRIED, QUIET, SEEN, LEAK."""
    seen = measured > limit_of(outcome)
    tried = np.where(allowed, np.where(seen, SEEN, QUIET), CLEAN)
    cells = np.where(np.isnan(measured), UNTRIED, tried)
    found: Int[np.ndarray, "query key"] = np.where(leaking(outcome, allowed, measured), LEAK, cells)
    return found
