"""Names of points in a picture, each where it covers no point and no other name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from headwise.show.picture_style import FONT

__all__ = ["name_points"]

_Box = tuple[float, float, float, float]

_SIZE = FONT - 2
_POINT = 2.2
"""Points that a dot reaches from its middle."""


def name_points(
    axes: Axes,
    names: Sequence[str],
    places: Float[np.ndarray, "point 2"],
    colours: Sequence[str],
) -> None:
    """Names beside the points, in order: right, left, above or below, where there is room, else none.

    The figure must be laid out.
    """
    dots = axes.figure.dpi / 72
    shown = axes.transData.transform(places) / dots
    points = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in shown.tolist()]
    left, low, right, high = (x / dots for x in axes.bbox.extents)
    taken: list[_Box] = []
    for at, (name, (x, y)) in enumerate(zip(names, shown.tolist(), strict=True)):
        others = [*points[:at], *points[at + 1 :], *taken]
        for dx, dy in _beside(0.56 * _SIZE * len(name), 0.8 * _SIZE):
            wide, tall = 0.56 * _SIZE * len(name), 0.8 * _SIZE
            box = (x + dx, y + dy, x + dx + wide, y + dy + tall)
            inside = left < box[0] and low < box[1] and box[2] < right and box[3] < high
            if inside and not any(_meet(box, other) for other in others):
                taken.append(box)
                axes.annotate(
                    name, places[at], (dx, dy), textcoords="offset points", fontsize=_SIZE,
                    color=colours[at],
                )  # fmt: skip
                break


def _beside(wide: float, tall: float) -> list[tuple[float, float]]:
    """Where a name of this size may begin, from its point, in points; the first is the best."""
    gap = _POINT + 0.6
    return [
        (gap, -tall / 2),
        (-gap - wide, -tall / 2),
        (-wide / 2, gap),
        (-wide / 2, -gap - tall),
        (gap * 0.7, gap * 0.7),
        (gap * 0.7, -gap * 0.7 - tall),
        (-gap * 0.7 - wide, gap * 0.7),
        (-gap * 0.7 - wide, -gap * 0.7 - tall),
    ]


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
