"""Pictures for papers: maps of heads and the grid of all heads, as matplotlib figures.

Figures are built without pyplot, so that nothing global changes and no window opens. Text stays
text in SVG and PDF; `save` writes PNG, SVG or PDF by suffix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from headwise.core.reach import Reach
from headwise.files import replacing
from headwise.names import OutputError, ShapeError
from headwise.show.fonts import families_for
from headwise.show.grid import Grid
from headwise.show.labels import one_line
from headwise.show.palette import hex_of, scale_top, weight_shade
from headwise.show.picture_grid import grid_figure
from headwise.show.picture_labels import label_axis
from headwise.show.picture_style import (
    add_caption,
    add_hidden_key,
    hatch,
    new_figure,
    no_glyph_warnings,
    settle,
    style,
)

__all__ = ["DPI", "HeadPicture", "draw_grid", "draw_maps", "draw_reach", "save"]

DPI = 220
_VECTOR_LIMIT = 4096
"""Patterns of more cells than this are kept as an image inside the SVG, not as shapes."""
_BAR_INCHES = 0.13
"""Thickness of the colour bar."""
_SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class HeadPicture:
    """One head to draw: `pattern[query, key]`, NaN where the query may not see the key."""

    title: str
    pattern: Float[np.ndarray, "query key"]
    query_labels: Sequence[str]
    key_labels: Sequence[str]


def draw_maps(
    maps: Sequence[HeadPicture], *, caption: str, scale: str = "attention weight"
) -> Figure:
    """The patterns of one or several heads, side by side on one scale.

    Rows are the tokens that look, columns the tokens looked at; darker is more. Cells that may
    not be seen are hatched. With many tokens the picture grows and every k-th token is named.

    Args:
        maps: the heads.
        caption: the facts below the picture: model, text, what was hidden.
        scale: what the colours are a scale of.

    Raises:
        ShapeError: no map, or labels that do not fit a pattern.

    Warns:
        MissingGlyphWarning: a label has characters that no font of this machine draws.
    """
    for head in maps:
        _check(head)
    if not maps:
        raise ShapeError("no head to draw; give at least one map")
    texts = [caption, *(text for head in maps for text in _texts(head))]
    with mpl.rc_context(style(families_for(map(one_line, texts)))):
        return _maps_figure(maps, caption, scale)


def draw_grid(grid: Grid, *, caption: str) -> Figure:
    """The grid layers x heads, one panel per stack, coloured by what each head is.

    A paler colour is less of it; lines part the KV groups of grouped-query attention; a head that
    is not in the grid (a pruned one) is hatched.

    Raises:
        ShapeError: no head.
    """
    if not grid.cells:
        raise ShapeError("no heads to draw; give at least one")
    with mpl.rc_context(style(families_for([caption]))):
        return grid_figure(grid, caption)


def draw_reach(reach: Reach, *, caption: str) -> Figure:
    """After how many layers of a mask one position's input can be in another's output."""
    from headwise.show.picture_reach import reach_figure

    with mpl.rc_context(style(families_for([caption]))):
        return reach_figure(reach, caption)


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure as PNG, SVG or PDF, by the suffix of the path.

    A failure leaves an old file as it was.

    Raises:
        OutputError: the suffix is another, or the path cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _SUFFIXES:
        raise OutputError(f"cannot write {target.name!r}: a picture ends in .png, .svg or .pdf")
    with replacing(target, "the picture") as place:
        _write(figure, str(place), suffix)


def _write(figure: Figure, name: str, suffix: str) -> None:
    kept: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "headwise"}
    undated: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context(kept), no_glyph_warnings():
        figure.savefig(name, format=suffix[1:], dpi=DPI, metadata=undated.get(suffix))


def _maps_figure(maps: Sequence[HeadPicture], caption: str, says: str) -> Figure:
    columns = len(maps) if len(maps) <= 3 else math.ceil(math.sqrt(len(maps)))
    rows = -(-len(maps) // columns)
    width, height = _panel_inches(maps, columns)
    margin = 1.1 * columns if columns > 1 else 1.0
    inches = max(3.2, columns * width + margin + 0.9), rows * (height + 1.1) + 0.6
    figure = new_figure(*inches, layout="compressed")
    panels = figure.subplots(rows, columns, squeeze=False)
    top = scale_top(np.concatenate([head.pattern.ravel() for head in maps]))
    scale = LinearSegmentedColormap.from_list(
        "headwise", [hex_of(weight_shade(part)) for part in np.linspace(0, 1, 65)]
    )
    for axes, head in zip(panels.flat, maps, strict=False):
        image = _draw_map(axes, head, scale, top, width, height)
    for axes in panels.flat[len(maps) :]:
        axes.set_visible(False)
    size = _bar_size(columns * width, rows * height)
    bar = figure.colorbar(image, ax=panels.ravel().tolist(), **size)
    bar.set_label(says)
    bar.ax.tick_params(labelfontfamily=mpl.rcParams["font.family"], width=0.5, length=2)
    bar.outline.set_linewidth(0.5)
    if any(np.isnan(head.pattern).any() for head in maps):
        add_hidden_key(panels[0, -1])
    add_caption(figure, caption)
    settle(figure)
    return figure


def _bar_size(width: float, height: float) -> dict[str, Any]:
    """A colour bar of one thickness, as high as the maps, whose inches are given."""
    thick = _BAR_INCHES / width
    return {"fraction": thick, "pad": thick / 2, "aspect": height / _BAR_INCHES}


def _draw_map(
    axes: Axes,
    head: HeadPicture,
    scale: LinearSegmentedColormap,
    top: float,
    width: float,
    height: float,
) -> QuadMesh:
    rows, columns = head.pattern.shape
    many = rows * columns > _VECTOR_LIMIT
    image = axes.pcolormesh(
        np.ma.masked_invalid(head.pattern),
        cmap=scale,
        vmin=0.0,
        vmax=top,
        rasterized=many,
        edgecolors="none" if many else "white",
        linewidth=0.0 if many else min(0.4, 2.0 * width / columns),
    )
    hatch(axes)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(one_line(head.title), parse_math=False)
    label_axis(axes.xaxis, "token looked at", head.key_labels, width / columns)
    label_axis(axes.yaxis, "token that looks", head.query_labels, height / rows)
    return image


def _panel_inches(maps: Sequence[HeadPicture], columns: int) -> tuple[float, float]:
    """Width and height of a panel: cells shrink as their number grows, and with panels beside."""
    rows = max(head.pattern.shape[0] for head in maps)
    keys = max(head.pattern.shape[1] for head in maps)
    longest = max(rows, keys)
    side = max(1.4, min(0.3 * longest, 3.6 + 0.04 * longest, 4.6 + 0.022 * longest))
    side *= 1.0 if columns == 1 else 0.85
    return side * keys / longest, side * rows / longest


def _texts(head: HeadPicture) -> tuple[str, ...]:
    return (head.title, *head.query_labels, *head.key_labels)


def _check(head: HeadPicture) -> None:
    wanted = (len(head.query_labels), len(head.key_labels))
    if head.pattern.shape != wanted or 0 in wanted:
        raise ShapeError(
            f"{head.title}: a pattern of shape {head.pattern.shape} came with {wanted[0]} query "
            f"labels and {wanted[1]} key labels; give one per row and one per column, at least one"
        )
