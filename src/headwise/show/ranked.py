"""A table over layer and head as heads in order: what the grid, the list and the picture of a ranking draw.

Importances differ by powers of ten within a model, so the terminal shades heads by their place in the order, and
says from which number on; the picture shades by the root of the number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from headwise.names import HeadId, LayerId
from headwise.show.grid import Grid, GridCell
from headwise.show.palette import SHADES, Kind, terminal_shade
from headwise.show.words import figure

__all__ = ["Ranked", "grid_of_cut", "grid_of_ranked", "ranked_heads"]

_PARTS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Ends of the shares of heads that have a shade of their own, the strongest first."""

_NAMES = ("top tenth", "to a quarter", "to a half", "to three quarters", "the rest")
_NEGATIVE = "below 0"
_ORANGE = (213, 94, 0)
_KEPT, _CUT = "kept", "cut"


@dataclass(frozen=True)
class Ranked:
    """A head, which KV head it reads, its number, and the standard error of it (NaN where none is known).

    `place` is where it is among the heads of its table, layer by layer.
    """

    id: HeadId
    kv_group: int
    value: float
    error: float
    place: int


def ranked_heads(table: xr.Dataset, name: str = "importance") -> list[Ranked]:
    """The heads of a table over (layer, head) that have a number, most first."""
    values = table[name].values
    errors = np.full_like(values, np.nan)
    if "standard_error" in table:
        errors = table["standard_error"].values
    groups = table["kv_group"].values if "kv_group" in table.coords else None
    found = []
    for i, layer in enumerate(table["layer"].values.tolist()):
        id = LayerId.parse(str(layer))
        for j, head in enumerate(table["head"].values.tolist()):
            if math.isnan(values[i, j]):
                continue
            group = int(head) if groups is None else int(groups[i, j])
            value, error = float(values[i, j]), float(errors[i, j])
            found.append(Ranked(id.head(int(head)), group, value, error, i * values.shape[1] + j))
    return sorted(found, key=lambda one: -one.value)


def grid_of_ranked(heads: Sequence[Ranked], says: str) -> Grid:
    """The heads shaded by their place in the order; those whose number is negative are told apart.

    Args:
        heads: most first.
        says: what the number is.
    """
    positive = [one for one in heads if one.value >= 0]
    kinds: list[Kind] = []
    kind_of: dict[HeadId, Kind] = {}
    start = 0
    for step, (part, name) in enumerate(zip(_PARTS, _NAMES, strict=True)):
        held = positive[start : round(part * len(positive))]
        start = max(start, round(part * len(positive)))
        if not held:
            continue
        shade = len(SHADES) - 1 - step
        told = f"{name}, from {figure(held[-1].value)}:"
        kinds.append(Kind(told, SHADES[shade], SHADES[shade], terminal_shade(shade)))
        kind_of |= {one.id: kinds[-1] for one in held}
    if len(positive) < len(heads):
        kinds.append(Kind(f"{_NEGATIVE}:", "-", "-", _ORANGE))
        kind_of |= {one.id: kinds[-1] for one in heads if one.value < 0}
    placed = sorted(heads, key=lambda one: one.place)
    cells = tuple(GridCell(one.id, one.kv_group, kind_of[one.id], 1.0) for one in placed)
    return Grid(cells, tuple(kinds), f"shaded by their order in {says}", says)


def grid_of_cut(kept: Sequence[HeadId], cut: Sequence[HeadId], groups: dict[HeadId, int]) -> Grid:
    """Which heads are kept and which are cut; others were cut before.

    Args:
        kept, cut: all heads there were before this cut.
        groups: the KV head that each reads.
    """
    kinds = (Kind(_KEPT, "o", "o", (33, 113, 181)), Kind(_CUT, "x", "x", (240, 200, 170)))
    cells = [
        GridCell(id, groups[id], kind, 1.0)
        for kind, heads in zip(kinds, (kept, cut), strict=True)
        for id in heads
    ]
    title = "heads; in brackets how many"
    return Grid(tuple(cells), kinds, "blank: cut before, or no such head", title)
