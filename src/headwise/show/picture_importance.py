"""The importance of every head as a figure: layers x heads, one panel per stack, with a scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import FuncNorm, LinearSegmentedColormap
from matplotlib.figure import Figure

from headwise.names import ShapeError
from headwise.show.fonts import families_for
from headwise.show.palette import PAPER, hex_of, kv_starts, weight_shade
from headwise.show.picture_labels import wrapped
from headwise.show.picture_style import FONT, add_caption, hatch, hatched, new_figure, settle, style
from headwise.show.ranked import Ranked

__all__ = ["draw_importance"]

_ORANGES = ("#7f2704", "#d94801", "#fd8d3c", "#fdd0a2")
"""Below 0, the furthest first (ColorBrewer "Oranges")."""

_BAR_INCHES = 0.13


def draw_importance(heads: Sequence[Ranked], *, caption: str, says: str) -> Figure:
    """The heads as cells, darker for more; blue above 0, orange below, hatched where there is no such head.

    Bars part the KV groups of grouped-query attention. The shade goes by the root of the number, as importances
    differ by powers of ten; the scale beside says which shade is how much.

    Args:
        heads: of a table (`ranked_heads`).
        caption: the facts below the picture.
        says: what the number is, in a word or two, or its unit; it stands beside the scale.

    Raises:
        ShapeError: no head.

    Warns:
        MissingGlyphWarning: the caption has characters that no font of this machine draws.
    """
    if not heads:
        raise ShapeError("no heads to draw; give at least one")
    streams = list(dict.fromkeys(one.id.stream for one in sorted(heads, key=lambda one: one.place)))
    parts = [[one for one in heads if one.id.stream == stream] for stream in streams]
    with mpl.rc_context(style(families_for([caption, says]))):
        return _figure(parts, caption, says)


def _figure(parts: Sequence[Sequence[Ranked]], caption: str, says: str) -> Figure:
    columns = [1 + max(one.id.head for one in part) for part in parts]
    rows = [1 + max(one.id.layer for one in part) for part in parts]
    cell = max(0.09, min(0.26, 6.2 / sum(columns), 5.5 / max(rows)))
    width = max(3.2, sum(columns) * cell + 0.6 * len(parts) + 0.9)
    figure = new_figure(width, max(1.0, max(rows) * cell) + 0.9, layout="compressed")
    panels = figure.subplots(1, len(parts), squeeze=False, width_ratios=columns)
    values = np.array([one.value for part in parts for one in part])
    colours = _scale(values)
    for axes, part, heads, layers in zip(panels.flat, parts, columns, rows, strict=True):
        image = _stack(axes, part, (layers, heads), colours, cell)
    thick = _BAR_INCHES / (sum(columns) * cell)
    size: dict[str, Any] = {
        "fraction": thick,
        "pad": thick,
        "aspect": max(rows) * cell / _BAR_INCHES,
    }
    bar = figure.colorbar(image, ax=panels.ravel().tolist(), **size)
    _label_bar(bar, wrapped(says, max(12, int(max(rows) * cell * 72 / (0.55 * FONT)))), values)
    if sum(len(part) for part in parts) < sum(a * b for a, b in zip(rows, columns, strict=True)):
        figure.legend(
            handles=[hatched("no such head (cut, or none there)")],
            loc="outside upper left",
            frameon=False,
            handlelength=1.6,
        )
    add_caption(figure, caption)
    settle(figure)
    return figure


def _scale(values: Float[np.ndarray, " head"]) -> dict[str, Any]:
    """The colours and where they are: from 0, or as far below it as above where some are below."""
    top = float(np.abs(values).max()) or 1.0
    low = -top if values.min() < 0 else 0.0
    norm = FuncNorm((_root, _square), vmin=low, vmax=top)
    blues = [hex_of(weight_shade(part)) for part in np.linspace(0, 1, 65)]
    shades = [*_ORANGES, hex_of(PAPER), *blues[16::16]] if low else blues
    return {"cmap": LinearSegmentedColormap.from_list("headwise", shades), "norm": norm}


def _root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: Any) -> Any:
    return np.sign(x) * np.square(x)


def _stack(
    axes: Axes,
    part: Sequence[Ranked],
    shape: tuple[int, int],
    colours: dict[str, Any],
    cell: float,
) -> QuadMesh:
    values = np.full(shape, np.nan)
    for one in part:
        values[one.id.layer, one.id.head] = one.value
    image = axes.pcolormesh(
        np.ma.masked_invalid(values), edgecolors="white", linewidth=0.5, **colours
    )
    hatch(axes)
    for start in kv_starts({one.id.head: one.kv_group for one in part}):
        axes.axvline(start, color="#191919", linewidth=0.9)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(part[0].id.stream)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    step = 1 if cell >= 0.17 else 2 if cell >= 0.13 else 4
    for axis, count in ((axes.xaxis, shape[1]), (axes.yaxis, shape[0])):
        axis.set_ticks(np.arange(0, count, step) + 0.5, labels=map(str, range(0, count, step)))
    axes.tick_params(length=0, pad=2)
    return image


def _label_bar(bar: Any, says: str, values: Float[np.ndarray, " head"]) -> None:
    """Ticks at quarters of the scale's length, in numbers that can be read."""
    top = float(np.abs(values).max()) or 1.0
    parts = np.array([0.0, 0.05, 0.25, 0.5, 1.0])
    ticks = top * parts
    if values.min() < 0:
        ticks = np.concatenate([-ticks[:0:-1], ticks])
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    bar.set_label(says)
    bar.ax.tick_params(labelfontfamily=mpl.rcParams["font.family"], width=0.5, length=2)
    bar.outline.set_linewidth(0.5)
