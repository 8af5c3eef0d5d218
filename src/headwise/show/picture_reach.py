"""Reach as a figure: rows are reached, columns reach, shaded by the layer at which a path opens."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from headwise.core.reach import Reach
from headwise.show.palette import hex_of, weight_shade
from headwise.show.picture_style import add_caption, hatch, new_figure

__all__ = ["reach_figure"]

_INCHES = 3.4


def reach_figure(reach: Reach, caption: str) -> Figure:
    """A panel, and one for the positions of an encoder, with a bar of layers; hatched where no path opens."""
    rows = reach.first.shape[1] - reach.start
    maps = [("position that reaches", reach.first[0, reach.start :].cpu().numpy())]
    if reach.memory is not None:
        of_encoder = reach.memory[0, reach.start :].cpu().numpy()
        maps.append(("position of the encoder", of_encoder))
    widths = [first.shape[1] for _, first in maps]
    inches = _INCHES / max(rows, *widths)
    wide = max(1.2, sum(widths) * inches) + 0.7 * len(maps)
    figure = new_figure(wide + 0.2, max(1.6, rows * inches) + 0.7)
    panels = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    held = np.unique(np.concatenate([first.ravel() for _, first in maps]))
    opening = [int(layer) for layer in held if layer >= 0] or [0]
    for axes, (says, first) in zip(panels, maps, strict=True):
        mesh = _draw(axes, first, reach.start, opening[-1])
        axes.set_xlabel(says)
    panels[0].set_ylabel("position reached")
    bar = figure.colorbar(
        mesh, ax=list(panels), shrink=0.7, label="after how many layers a path is open"
    )
    bar.set_ticks(opening[:: -(-len(opening) // 9)])
    cache = f" Positions before {reach.start} come out of a cache." if reach.start else ""
    add_caption(figure, f"{caption}. Hatched: never.{cache}")
    return figure


def _draw(axes: Axes, first: Int[np.ndarray, "query key"], start: int, layers: int) -> QuadMesh:
    """One map, its shades and bar from 0 to the last layer at which any path opens."""
    rows, keys = first.shape
    shades = [
        hex_of(weight_shade(1 - 0.85 * layer / max(layers, 1))) for layer in range(layers + 1)
    ]
    mesh = axes.pcolormesh(
        np.where(first < 0, np.nan, first),
        cmap=ListedColormap(shades),
        norm=BoundaryNorm(np.arange(layers + 2) - 0.5, layers + 1),
        edgecolors="white" if max(rows, keys) <= 40 else "none",
        linewidth=0.4,
        rasterized=rows * keys > 4096,
    )
    hatch(axes)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    for axis, least, count in ((axes.xaxis, 0, keys), (axes.yaxis, start, rows)):
        numbers = _ticks(least, least + count)
        axis.set_ticks([n - least + 0.5 for n in numbers], labels=list(map(str, numbers)))
    return mesh


def _ticks(start: int, end: int) -> list[int]:
    """Round numbers, at most a dozen; the first where it would be the only one."""
    sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next(s for s in sizes if (end - start) / s <= 12 or s == sizes[-1])
    return list(range(-(-start // step) * step, end, step)) or [start]
