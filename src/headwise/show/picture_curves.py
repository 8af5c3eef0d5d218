"""Lines with bands: loss against heads removed, and loss along a tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwise.names import ShapeError
from headwise.show.fonts import families_for
from headwise.show.labels import one_line
from headwise.show.picture_style import add_caption, new_figure, style

__all__ = [
    "LOOKS",
    "Curve",
    "Level",
    "add_curve",
    "add_level",
    "draw_curves",
    "finish",
    "plain_name",
]

LOOKS = (
    {"color": "#0072b2", "marker": "o", "ls": "-"},
    {"color": "#d55e00", "marker": "s", "ls": "--"},
    {"color": "#7f7f7f", "marker": "^", "ls": ":"},
    {"color": "#009e73", "marker": "D", "ls": "-."},
    {"color": "#cc79a7", "marker": "v", "ls": "-"},
    {"color": "#e69f00", "marker": "P", "ls": "--"},
    {"color": "#56b4e9", "marker": "X", "ls": ":"},
)
"""After Okabe and Ito (2008); marks and dashes tell the lines apart in grey too."""

_WIDTH, _HEIGHT = 4.4, 3.0
"""Inches: a column and a half of a paper."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line: its name, its points in the order of x, and the ends of its band, as many of each (None: no band)."""

    name: str
    x: Float[np.ndarray, " _"]
    y: Float[np.ndarray, " _"]
    low: Float[np.ndarray, " _"] | None = None
    high: Float[np.ndarray, " _"] | None = None


@dataclass(frozen=True)
class Level:
    """A line across: the loss of the model as it was."""

    name: str
    y: float


def draw_curves(
    curves: Sequence[Curve],
    levels: Sequence[Level] = (),
    *,
    xlabel: str,
    ylabel: str,
    caption: str,
    percent: bool = False,
) -> Figure:
    """Lines with bands and a legend; levels run across, dashed and thin.

    Args:
        curves: each with points in the order of x.
        levels: for instance the loss before anything was cut.
        xlabel, ylabel: what the axes are, with units.
        caption: the facts below the picture: what the bands are, the model, the texts.
        percent: whether x is a share, written in percent.

    Raises:
        ShapeError: no curve, or one whose parts differ in length.

    Warns:
        MissingGlyphWarning: a name has characters that no font of this machine draws.
    """
    if not curves:
        raise ShapeError("no line to draw; give at least one")
    for curve in curves:
        _check(curve)
    names = [curve.name for curve in curves] + [level.name for level in levels]
    with mpl.rc_context(style(families_for([caption, xlabel, ylabel, *map(one_line, names)]))):
        figure = new_figure(_WIDTH, _HEIGHT)
        axes = figure.subplots()
        for number, curve in enumerate(curves):
            add_curve(axes, curve, LOOKS[number % len(LOOKS)])
        for level in levels:
            add_level(axes, level)
        finish(axes, xlabel, ylabel, percent)
        axes.legend(loc="best", frameon=False, handlelength=2.6, labelspacing=0.3)
        add_caption(figure, caption)
        return figure


def add_level(axes: Axes, level: Level) -> None:
    """A line across."""
    axes.axhline(
        level.y, color="#191919", lw=0.7, ls=(0, (5, 3)), zorder=1, label=plain_name(level.name)
    )


def add_curve(axes: Axes, curve: Curve, look: dict[str, Any]) -> None:
    """A line with its marks and its band.

    Args:
        axes: it is drawn in.
        curve: the line.
        look: one of LOOKS.
    """
    axes.plot(
        curve.x,
        curve.y,
        lw=1.2,
        ms=3.2,
        mec="white",
        mew=0.4,
        label=plain_name(curve.name),
        zorder=3,
        **look,
    )
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.18, lw=0)


def finish(axes: Axes, xlabel: str, ylabel: str, percent: bool = False) -> None:
    """Name the axes, and let what is drawn stand alone: a pale grid, no frame."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if percent:
        axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.grid(axis="y", color="#e2e2e2", lw=0.5, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(length=2, width=0.6)
    axes.margins(x=0.02)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plain_name(name: str) -> str:
    """A name as it is: matplotlib leaves out names that begin with _ and reads $ as mathematics."""
    return one_line(name).replace("$", r"\$").lstrip("_")


def _check(curve: Curve) -> None:
    parts = {"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}
    lengths = {name: len(part) for name, part in parts.items() if part is not None}
    if len(set(lengths.values())) != 1 or not len(curve.x) or len(lengths) == 3:
        told = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        raise ShapeError(
            f"{curve.name} has these points: {told}; give as many of each, at least one, and both ends of a band"
        )
