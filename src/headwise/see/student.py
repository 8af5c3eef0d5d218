"""Student's t: how far a mean over few texts may be off."""

from __future__ import annotations

import math
from functools import cache

__all__ = ["half_width"]

_CLOSE = 200
"""Degrees of freedom from which the quantile is the normal one with its first corrections (to 1e-9)."""


@cache
def half_width(freedom: int) -> float:
    """The t with 95 % of Student's distribution between -t and t, for this many degrees of freedom.

    Abramowitz & Stegun 26.7.3-5. NaN below one degree.
    """
    if freedom < 1:
        return math.nan
    if freedom >= _CLOSE:
        z = 1.959963984540054
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        return z + first / freedom + second / freedom**2 + third / freedom**3
    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _between(middle, freedom) < 0.95 else (low, middle)
    return (low + high) / 2


def _between(t: float, freedom: int) -> float:
    """The probability of a value between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
