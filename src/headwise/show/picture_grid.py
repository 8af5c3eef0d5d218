"""The grid of all heads as a figure: layers x heads, one panel per stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from headwise.see.summary import HeadSummary
from headwise.show.palette import (
    KINDS,
    STRONG,
    count_kinds,
    hex_of,
    ink_on,
    kind_of,
    kind_shade,
    kv_starts,
)
from headwise.show.picture_style import add_caption, hatch, hatched, new_figure

__all__ = ["grid_figure"]

_ONE_LINE = 7.0
"""A figure of at least as many inches takes the legend in one line."""


def grid_figure(summaries: Sequence[HeadSummary], caption: str) -> Figure:
    """One panel per stream, cells of one size, a legend with the number of heads of each kind."""
    streams = list(dict.fromkeys(summary.id.stream for summary in summaries))
    parts = [[summary for summary in summaries if summary.id.stream == name] for name in streams]
    columns = [1 + max(summary.id.head for summary in part) for part in parts]
    layers = [sorted({summary.id.layer for summary in part}) for part in parts]
    cell = max(0.09, min(0.26, 9.0 / sum(columns), 7.0 / max(map(len, layers))))
    width = sum(columns) * cell + 0.7 * len(parts) + 0.2
    height = max(map(len, layers)) * cell + (1.8 if width < _ONE_LINE else 1.35)
    figure = new_figure(max(4.2, width), height)
    panels = figure.subplots(1, len(parts), squeeze=False, width_ratios=columns)
    for axes, part, heads, rows in zip(panels.flat, parts, columns, layers, strict=True):
        _draw_stack(axes, part, heads, rows, cell)
    _legend(figure, summaries, missing=_missing(columns, layers) > len(summaries))
    add_caption(figure, caption)
    return figure


def _draw_stack(
    axes: Axes, summaries: Sequence[HeadSummary], heads: int, layers: Sequence[int], cell: float
) -> None:
    shades = np.zeros((len(layers), heads, 4))
    row_of = {layer: row for row, layer in enumerate(layers)}
    for summary in summaries:
        kind = kind_of(summary)
        shade = kind_shade(kind, summary.mass)
        row = row_of[summary.id.layer]
        shades[row, summary.id.head] = (*(part / 255 for part in shade), 1.0)
        if cell >= 0.14:
            code = kind.strong if summary.mass >= STRONG else kind.weak
            ink = hex_of(ink_on(shade))
            place = (summary.id.head + 0.5, row + 0.5)
            axes.annotate(code, place, color=ink, ha="center", va="center", fontsize=cell * 26)
    axes.pcolormesh(shades, edgecolors="white", linewidth=0.5)
    hatch(axes)
    for start in kv_starts({summary.id.head: summary.kv_group for summary in summaries}):
        axes.axvline(start, color="#191919", linewidth=0.9)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(summaries[0].id.stream)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    _number(axes, heads, layers, cell)


def _number(axes: Axes, heads: int, layers: Sequence[int], cell: float) -> None:
    step = 1 if cell >= 0.17 else 2 if cell >= 0.13 else 4
    axes.set_xticks(np.arange(0, heads, step) + 0.5, labels=map(str, range(0, heads, step)))
    axes.set_yticks(np.arange(0, len(layers), step) + 0.5, labels=map(str, layers[::step]))
    axes.tick_params(length=0, pad=2)


def _legend(figure: Figure, summaries: Sequence[HeadSummary], *, missing: bool) -> None:
    counts = count_kinds(summaries)
    handles = []
    for kind in KINDS.values():
        told = f"{kind.strong} {kind.does} ({counts[kind.does]})"
        handles.append(Patch(facecolor=hex_of(kind.colour), label=told))
    if missing:
        handles.append(hatched("no such head"))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=3 if figure.get_figwidth() < _ONE_LINE else len(handles),
        frameon=False,
        title="what the head does most (heads); paler: less of its attention",
        handlelength=1.2,
        columnspacing=1.2,
    )


def _missing(columns: Sequence[int], layers: Sequence[Sequence[int]]) -> int:
    return sum(heads * len(rows) for heads, rows in zip(columns, layers, strict=True))
