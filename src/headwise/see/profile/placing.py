"""Heads at the places of their ids: of a pruned layer, those that were cut stay empty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwise.hub.kept import Naming

__all__ = ["all_placed", "placed"]

_AXES = {
    **dict.fromkeys(("sum", "count", "sum_squared", "sum_count", "count_squared", "texts"), -1),
    **dict.fromkeys(("uniform", "unseen", "open_sum", "open_count"), -1),
    **dict.fromkeys(("received", "seen_by", "pooled", "pooled_max", "verified", "kv_group"), 0),
}
"""Which axis of a layer's sums (`tally`) is that of its heads."""


def placed(values: np.ndarray, names: Naming, axis: int, empty: float = 0.0) -> np.ndarray:
    """Numbers of the heads a layer has, at the places of their ids; `empty` where a head was cut."""
    if names.heads == tuple(range(names.total)):
        return values
    shape = list(values.shape)
    shape[axis] = names.total
    found = np.full(shape, empty, dtype=values.dtype)
    np.moveaxis(found, axis, 0)[list(names.heads)] = np.moveaxis(values, axis, 0)
    return found


def all_placed(tally: Mapping[str, np.ndarray], names: Naming) -> dict[str, np.ndarray]:
    """The sums of a layer with its heads at the places of their ids; heads that were cut have no case."""
    return {
        name: placed(values, names, _AXES[name], -1.0 if name == "kv_group" else 0.0)
        if name in _AXES
        else values
        for name, values in tally.items()
    }
