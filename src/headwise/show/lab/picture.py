"""The picture of a claim: its panels side by side, lines with bands, or bars where x counts categories."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from headwise.lab.claim import Line, Panel
from headwise.lab.running import Run
from headwise.lab.words import Language, Words
from headwise.names import ShapeError
from headwise.show.fonts import families_for
from headwise.show.lab.wording import SAYS
from headwise.show.labels import one_line
from headwise.show.picture_curves import (
    LOOKS,
    Curve,
    Level,
    add_curve,
    add_level,
    finish,
    plain_name,
)
from headwise.show.picture_labels import width_of, wrapped
from headwise.show.picture_style import FONT, add_caption, new_figure, style

__all__ = ["draw_panels", "draw_run"]

_WIDTH, _HEIGHT = 3.5, 2.8
"""Inches of a panel: the column of a paper."""
_ACROSS = 3
_BARS = 0.8
"""Of the room between two ticks, what the bars take."""
_NAMED = 9
"""So many different values of a logarithmic x are named each; more are left to the axis."""


def draw_run(run: Run, language: Language) -> Figure:
    """The picture of a claim that was run, with a caption that says what of."""
    claim, stop = run.claim, "." if language == "en" else "。"
    comma = ", " if language == "en" else ","
    caption = (
        f"{claim.row} {claim.title.of(language)}{comma}{run.asked.get('text')}{stop}"
        f"{' ' if language == 'en' else ''}{SAYS['band'].of(language)}{stop}"
    )
    return draw_panels(claim.panels(run.results), language, caption=caption)


def draw_panels(panels: Sequence[Panel], language: Language, *, caption: str) -> Figure:
    """Panels side by side.

    Args:
        panels: each with a line at least.
        language: of their words.
        caption: below the picture.

    Raises:
        ShapeError: no panel, one without lines, or a line whose parts differ in length.

    Warns:
        MissingGlyphWarning: a word has characters that no font of this machine draws.
    """
    if not panels or not all(panel.lines for panel in panels):
        raise ShapeError("a picture of the lab needs a panel, and each panel a line; give one")
    columns = min(_ACROSS, len(panels)) if len(panels) != 4 else 2
    rows = math.ceil(len(panels) / columns)
    words = [one_line(word) for panel in panels for word in _words(panel, language)]
    with mpl.rc_context(style(families_for([caption, *words]))):
        width = columns * _WIDTH if columns > 1 else _WIDTH + 0.9
        figure = new_figure(width, rows * _HEIGHT + 0.3)
        plots = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(plots.flat, panels, strict=False):
            _draw(axes, panel, language)
        for axes in plots.flat[len(panels) :]:
            axes.set_visible(False)
        add_caption(figure, caption)
        return figure


def _draw(axes: Axes, panel: Panel, language: Language) -> None:
    curves = [_curve(line, language) for line in panel.lines]
    if panel.ticks and not panel.log_y:
        _bars(axes, curves)
    elif panel.ticks:
        _points(axes, curves)
    else:
        for number, curve in enumerate(curves):
            add_curve(axes, curve, LOOKS[number % len(LOOKS)])
    for words, y in panel.levels:
        add_level(axes, Level(words.of(language), y))
    finish(axes, _label(panel.xlabel, language), _label(panel.ylabel, language))
    _scales(axes, panel, language)
    if len(curves) + len(panel.levels) > 1:
        axes.legend(
            loc="best", frameon=False, handlelength=2.2, labelspacing=0.3, fontsize=FONT - 1
        )


def _bars(axes: Axes, curves: Sequence[Curve]) -> None:
    """Bars from 0, those of the lines beside one another, with whiskers for the intervals."""
    size = _BARS / len(curves)
    for number, curve in enumerate(curves):
        at = curve.x + (number - (len(curves) - 1) / 2) * size
        color = LOOKS[number % len(LOOKS)]["color"]
        axes.bar(at, curve.y, size * 0.9, color=color, label=plain_name(curve.name), zorder=2)
        _whiskers(axes, at, curve)


def _points(axes: Axes, curves: Sequence[Curve]) -> None:
    """Marks, where the axis is logarithmic and a bar would begin nowhere."""
    size = _BARS / len(curves)
    for number, curve in enumerate(curves):
        at = curve.x + (number - (len(curves) - 1) / 2) * size
        look: dict[str, Any] = {**LOOKS[number % len(LOOKS)], "ls": ""}
        axes.plot(at, curve.y, ms=4.5, label=plain_name(curve.name), zorder=4, **look)
        _whiskers(axes, at, curve)


def _whiskers(axes: Axes, at: np.ndarray, curve: Curve) -> None:
    if curve.low is not None and curve.high is not None:
        axes.vlines(at, curve.low, curve.high, color="#191919", lw=0.9, zorder=3)


def _scales(axes: Axes, panel: Panel, language: Language) -> None:
    if panel.log_y:
        axes.set_yscale("log")
    if panel.ticks:
        names = [one_line(tick.of(language)) for tick in panel.ticks]
        room = _WIDTH * 72 / (FONT * 0.55) / len(names)
        shown = [wrapped(name, max(6, int(room))) for name in names]
        axes.set_xticks(range(len(names)), shown)
        for label in axes.get_xticklabels():
            label.set_parse_math(False)
        if any(width_of(line) > room * 1.3 for name in shown for line in name.splitlines()):
            axes.tick_params(axis="x", labelrotation=30)
        axes.set_xlim(-0.6, len(names) - 0.4)
    elif panel.log_x:
        axes.set_xscale("log", base=2)
        found = sorted({float(x) for line in panel.lines for x in line.x})
        if len(found) <= _NAMED:
            axes.set_xticks(found, [f"{x:g}" for x in found])
            axes.xaxis.set_minor_locator(NullLocator())


def _curve(line: Line, language: Language) -> Curve:
    curve = Curve(line.name.of(language), line.x, line.y, line.low, line.high)
    parts = [part for part in (line.x, line.y, line.low, line.high) if part is not None]
    if len({len(part) for part in parts}) != 1 or (line.low is None) != (line.high is None):
        raise ShapeError(
            f"the line {curve.name!r} has parts of {', '.join(str(len(part)) for part in parts)} points; "
            "give as many of each, and both ends of a band"
        )
    return curve


def _label(words: Words, language: Language) -> str:
    """The name of an axis; "" where its ticks say enough."""
    return plain_name(words.of(language)) if words.of(language) else ""


def _words(panel: Panel, language: Language) -> Iterator[str]:
    yield panel.xlabel.of(language)
    yield panel.ylabel.of(language)
    for words in (*(line.name for line in panel.lines), *panel.ticks):
        yield words.of(language)
    for words, _ in panel.levels:
        yield words.of(language)
