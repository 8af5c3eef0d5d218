"""The grid of all heads as a figure: layers x heads, one panel per stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from headwise.show.grid import Grid, GridCell
from headwise.show.palette import hex_of, ink_on, kind_shade, kv_starts
from headwise.show.picture_style import add_caption, fitted, hatch, hatched, new_figure

__all__ = ["grid_figure"]

_ONE_LINE = 7.0
"""A figure of at least as many inches takes the legend in one line."""

_IN_ONE_LINE = 7
"""Kinds that fit there."""

_ENTRY = 1.75
"""Inches of an entry of a longer legend."""


def grid_figure(grid: Grid, caption: str) -> Figure:
    """One panel per stream, cells of one size, a legend with the number of heads of each kind."""
    streams = list(dict.fromkeys(one.id.stream for one in grid.cells))
    parts = [[one for one in grid.cells if one.id.stream == name] for name in streams]
    columns = [1 + max(one.id.head for one in part) for part in parts]
    layers = [sorted({one.id.layer for one in part}) for part in parts]
    cell = max(0.09, min(0.26, 9.0 / sum(columns), 7.0 / max(map(len, layers))))
    width = sum(columns) * cell + 0.7 * len(parts) + 0.2
    missing = _missing(columns, layers) > len(grid.cells)
    rows, ncols = _legend_shape(max(4.2, width), len(grid.kinds) + missing)
    height = max(map(len, layers)) * cell + 1.2 + 0.16 * rows
    figure = new_figure(max(4.2, width), height)
    panels = figure.subplots(1, len(parts), squeeze=False, width_ratios=columns)
    for axes, part, heads, numbers in zip(panels.flat, parts, columns, layers, strict=True):
        _draw_stack(axes, part, heads, numbers, cell)
    _legend(figure, grid, ncols, missing=missing)
    add_caption(figure, caption)
    return figure


def _draw_stack(
    axes: Axes, cells: Sequence[GridCell], heads: int, layers: Sequence[int], cell: float
) -> None:
    shades = np.zeros((len(layers), heads, 4))
    row_of = {layer: row for row, layer in enumerate(layers)}
    for one in cells:
        shade = kind_shade(one.kind, one.mass)
        row = row_of[one.id.layer]
        shades[row, one.id.head] = (*(part / 255 for part in shade), 1.0)
        if cell >= 0.14:
            ink = hex_of(ink_on(shade))
            place = (one.id.head + 0.5, row + 0.5)
            axes.annotate(one.code, place, color=ink, ha="center", va="center", fontsize=cell * 26)
    axes.pcolormesh(shades, edgecolors="white", linewidth=0.5)
    hatch(axes)
    for start in kv_starts({one.id.head: one.kv_group for one in cells}):
        axes.axvline(start, color="#191919", linewidth=0.9)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(cells[0].id.stream)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    _number(axes, heads, layers, cell)


def _number(axes: Axes, heads: int, layers: Sequence[int], cell: float) -> None:
    step = 1 if cell >= 0.17 else 2 if cell >= 0.13 else 4
    axes.set_xticks(np.arange(0, heads, step) + 0.5, labels=map(str, range(0, heads, step)))
    axes.set_yticks(np.arange(0, len(layers), step) + 0.5, labels=map(str, layers[::step]))
    axes.tick_params(length=0, pad=2)


def _legend_shape(width: float, count: int) -> tuple[int, int]:
    """Rows and columns of a legend of so many kinds in a figure of so many inches."""
    most = count if width >= _ONE_LINE and count <= _IN_ONE_LINE else max(3, int(width / _ENTRY))
    columns = min(count, most)
    return -(-count // columns), columns


def _legend(figure: Figure, grid: Grid, columns: int, *, missing: bool) -> None:
    counts = grid.counts()
    handles = []
    for kind in grid.kinds:
        told = f"{kind.strong} {kind.does} ({counts[kind.does]})"
        handles.append(Patch(facecolor=hex_of(kind.colour), label=told))
    if missing:
        handles.append(hatched("no such head"))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        title=fitted(figure, grid.title),
        handlelength=1.2,
        columnspacing=1.2,
    )


def _missing(columns: Sequence[int], layers: Sequence[Sequence[int]]) -> int:
    return sum(heads * len(rows) for heads, rows in zip(columns, layers, strict=True))
