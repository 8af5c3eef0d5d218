"""Reach as a figure: rows are reached, columns reach, shaded by the layer at which a path opens."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from headwise.core.reach import Reach
from headwise.show.palette import hex_of, weight_shade
from headwise.show.picture_style import add_caption, hatch, new_figure

__all__ = ["reach_figure"]

_INCHES = 3.4


def reach_figure(reach: Reach, caption: str) -> Figure:
    """One panel with a bar of layers; hatched where no path opens."""
    first = reach.first[0].cpu().double().numpy()
    shown = np.where(first < 0, np.nan, first)
    steps = reach.layers + 1
    shades = [
        hex_of(weight_shade(1 - 0.85 * layer / max(reach.layers, 1))) for layer in range(steps)
    ]
    figure = new_figure(_INCHES + 0.9, _INCHES + 0.7)
    axes = figure.subplots()
    norm = BoundaryNorm(np.arange(steps + 1) - 0.5, steps)
    mesh = axes.pcolormesh(
        shown,
        cmap=ListedColormap(shades),
        norm=norm,
        edgecolors="white" if len(first) <= 40 else "none",
        linewidth=0.4,
    )
    hatch(axes)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_xlabel("position that reaches")
    axes.set_ylabel("position reached")
    numbers = _ticks(len(first))
    axes.set_xticks([n + 0.5 for n in numbers], labels=map(str, numbers))
    axes.set_yticks([n + 0.5 for n in numbers], labels=map(str, numbers))
    bar = figure.colorbar(mesh, ax=axes, shrink=0.7, label="layers until it can")
    bar.set_ticks([t for t in range(steps) if steps <= 9 or t % (steps // 8) == 0])
    add_caption(figure, f"{caption}. Hatched: never.")
    return figure


def _ticks(length: int) -> list[int]:
    step = next(
        s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if length / s <= 12 or s == 1000
    )
    return list(range(0, length, step))
