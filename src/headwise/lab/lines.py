"""Lines and bars of pictures from results: means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwise.lab.claim import Line
from headwise.lab.estimates import Estimate
from headwise.lab.results import Case, Results, Setting
from headwise.lab.words import Words

__all__ = ["bars", "over", "through"]


def through(name: Words, x: Sequence[float], found: Sequence[Estimate]) -> Line:
    """A line through estimates; the band where all of them have intervals."""
    known = all(one.known for one in found)
    ends = [np.array([getattr(one, end) for one in found]) for end in ("low", "high")]
    low, high = ends if known else (None, None)
    return Line(name, np.array(x, float), np.array([one.mean for one in found]), low, high)


def over(results: Results, name: Words, quantity: str, setting: str, **fixed: Setting) -> Line:
    """A quantity against the values of a setting, which are numbers, of the cases with the fixed settings."""
    values = sorted(float(value) for value in results.settings(setting, **fixed))
    found = [results.mean(quantity, **fixed, **{setting: value}) for value in values]
    return through(name, values, found)


def bars(results: Results, name: Words, quantity: str, cases: Sequence[Case]) -> Line:
    """A quantity of some cases, a bar for each, in their order."""
    return through(name, range(len(cases)), [results.mean(quantity, **case) for case in cases])
