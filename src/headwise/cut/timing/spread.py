"""A median with its interval, which assumes nothing about the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Spread", "spread"]


@dataclass(frozen=True)
class Spread:
    """The median of several measurements, and the 95 % interval it lies in.

    The interval is made of order statistics, so it holds for any noise; of fewer than 6 measurements it is their
    range, which promises less.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def spread(values: Sequence[float], level: float = 0.95) -> Spread:
    """The median of some values with its distribution-free interval.

    Args:
        values: at least one.
        level: of the interval: outside it the median lies with at most (1 - level) / 2 on each side.
    """
    ordered, n = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < n // 2:
        tail += math.comb(n, below) / 2**n
        if tail > (1 - level) / 2:
            break
        below += 1
    at = max(below - 1, 0)
    return Spread(statistics.median(ordered), ordered[at], ordered[n - 1 - at])
