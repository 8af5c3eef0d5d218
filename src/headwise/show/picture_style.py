"""What all pictures share: fonts and lines, the hatch of hidden cells, the caption."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from headwise.show.picture_labels import wrapped

__all__ = [
    "FONT",
    "add_caption",
    "add_hidden_key",
    "fitted",
    "hatch",
    "hatched",
    "new_figure",
    "no_glyph_warnings",
    "settle",
    "style",
]

FONT = 8.0
"""Points of the text; tick labels are one point smaller."""

_GREY = "#ececec"
_LINE = "#c4c4c4"
_HATCH = "////"


def style(families: Sequence[str]) -> dict[Any, Any]:
    """The matplotlib settings a picture is built under."""
    return {
        "font.family": list(families),
        "font.size": FONT,
        "axes.titlesize": FONT + 1,
        "axes.labelsize": FONT,
        "xtick.labelsize": FONT - 1,
        "ytick.labelsize": FONT - 1,
        "axes.linewidth": 0.6,
        "hatch.linewidth": 0.5,
        "hatch.color": _LINE,
    }


def new_figure(
    width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained"
) -> Figure:
    """An empty figure of that many inches that lays itself out; "compressed" is for square cells."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.set_layout_engine(layout, h_pad=0.06, w_pad=0.06)
    return figure


def settle(figure: Figure) -> None:
    """Lay the figure out once ahead: the first layout counts on ticks that it then changes itself."""
    with no_glyph_warnings():
        figure.draw_without_rendering()


@contextmanager
def no_glyph_warnings() -> Iterator[None]:
    """Keep matplotlib from warning of each missing glyph: `fonts.families_for` told them all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def hatch(axes: Axes) -> None:
    """Hatch the ground of the axes: it shows wherever no cell is drawn."""
    axes.patch.set(facecolor=_GREY, edgecolor=_LINE, hatch=_HATCH, linewidth=0.0)


def hatched(label: str) -> Patch:
    """The legend's sample of the hatch."""
    return Patch(facecolor=_GREY, edgecolor=_LINE, hatch=_HATCH, linewidth=0.0, label=label)


def add_hidden_key(axes: Axes) -> None:
    """The legend of the hatch, flush with the right edge of the axes, above their title."""
    above = ScaledTranslation(0, 2.2 * FONT / 72, axes.figure.dpi_scale_trans)
    axes.legend(
        handles=[hatched("may not be seen")],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        bbox_transform=axes.transAxes + above,
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=1.6,
        frameon=False,
    )


def add_caption(figure: Figure, caption: str) -> None:
    """The caption below the figure, left-aligned, wrapped to its width."""
    text = figure.supxlabel(fitted(figure, caption), x=0.02, ha="left", fontsize=FONT)
    text.set_parse_math(False)


def fitted(figure: Figure, text: str) -> str:
    """The text in lines that fit the figure's width."""
    letters = int(figure.get_figwidth() * 72 / (FONT * 0.52)) - 4
    return wrapped(text, max(20, letters))
