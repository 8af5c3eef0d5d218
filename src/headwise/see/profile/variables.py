"""What the variables of a profile's table are made of: dims, values and attrs, and layers under one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Variable", "stacked"]

Variable = tuple[tuple[str, ...], np.ndarray, dict[str, str]]
"""Dims, values and attrs."""


def stacked(arrays: Sequence[np.ndarray], heads: int, axis: int = 0) -> np.ndarray:
    """Layers under one another, heads that one lacks as NaN."""
    wide = []
    for array in arrays:
        missing = [(0, 0)] * array.ndim
        missing[axis] = (0, heads - array.shape[axis])
        wide.append(np.pad(array, missing, constant_values=np.nan))
    return np.stack(wide)
