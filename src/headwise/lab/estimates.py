"""A mean over seeds with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Estimate", "estimate", "ratio"]


@dataclass(frozen=True)
class Estimate:
    """A mean, and its 95 % interval by Student's t over seeds; of one seed the interval is not known (NaN).

    Attributes:
        mean: over the seeds.
        low, high: ends of the interval.
        count: of seeds.
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def above(self, bound: float) -> bool | None:
        """Whether it is above a bound: None where the interval holds the bound, or is not known."""
        if not self.known or self.low <= bound <= self.high:
            return None
        return self.low > bound

    def below(self, bound: float) -> bool | None:
        """Whether it is below a bound: None where the interval holds the bound, or is not known."""
        over = self.above(bound)
        return None if over is None else not over

    def overlaps(self, other: Estimate) -> bool:
        """Whether the intervals meet; those that are not known meet any."""
        if not (self.known and other.known):
            return True
        return self.low <= other.high and other.low <= self.high

    def told(self, digits: int = 3) -> str:
        """`4.912 [4.902, 4.921]`, to so many digits; where those would be zeros, `1.2e-07`; of nothing a dash."""
        if not self.count:
            return "–"
        ends = (self.low, self.high) if self.known else ()
        largest = max(abs(x) for x in (self.mean, *ends))
        form = ".1e" if 0 < largest < 0.5 * 10.0**-digits else f".{digits}f"
        mean, *between = (f"{x:{form}}" for x in (self.mean, *ends))
        return f"{mean} [{', '.join(between)}]" if between else mean


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of values, one from each seed, with its interval.

    Args:
        values: any number; NaNs are left out.
    """
    kept = [float(x) for x in values if not math.isnan(x)]
    if not kept:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(np.mean(kept))
    if len(kept) == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    from scipy.special import stdtrit  # here: it takes a while to import

    half = float(stdtrit(len(kept) - 1, 0.975) * np.std(kept, ddof=1) / math.sqrt(len(kept)))
    return Estimate(mean, mean - half, mean + half, len(kept))


def ratio(ones: Sequence[float], others: Sequence[float]) -> Estimate:
    """The geometric mean of ratios of pairs, with its interval (that of the logarithms).

    Args:
        ones: from each seed, above 0.
        others: from the same seeds, above 0.
    """
    logs = estimate([math.log(a / b) for a, b in zip(ones, others, strict=True)])
    return Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), logs.count)
