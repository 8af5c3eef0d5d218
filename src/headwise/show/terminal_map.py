"""One head's pattern on a terminal: rows look, columns are looked at, darker is more."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len
from rich.color import Color
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from headwise.names import ShapeError
from headwise.show.cells import clusters, fit, flow, print_lines, vertical
from headwise.show.labels import one_line
from headwise.show.palette import RGB, SHADES, STEPS, ink_on, scale_top, terminal_shade

__all__ = ["head_map", "paint", "pool"]

_LABEL_CELLS = 16
_LABEL_LINES = 10


def head_map(
    pattern: Float[np.ndarray, "query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    title: str,
    width: int,
    colour: bool,
    max_rows: int = 40,
) -> RenderableType:
    """The map of one head in shades: rows = the token that looks, columns = the token looked at.

    Args:
        pattern: weights after the softmax; NaN where the query may not see the key (shown blank,
            while a weight that is next to nothing shows `·`).
        query_labels: one per row.
        key_labels: one per column; stood upright above the columns.
        title: the line above.
        width: cells of a line; columns that do not fit are pooled by maximum, and a line says so.
        colour: background colours as well as shades; without it the text is plain.
        max_rows: rows beyond this number are pooled too.

    Raises:
        ShapeError: the labels do not fit the pattern.
    """
    _check(pattern, query_labels, key_labels)
    frame = _frame(query_labels, key_labels, width, max_rows)
    pooled = pool(pool(pattern, frame.pool_rows, axis=0), frame.pool_columns, axis=1)
    rows = query_labels[:: frame.pool_rows]
    columns = key_labels[:: frame.pool_columns]
    top = scale_top(pattern)
    margin = " " * (frame.label + 1)
    lines = [Text(fit(title, width).rstrip(), style="bold" if colour else "")]
    lines += [Text(margin + line) for line in vertical(columns, frame.cell, _LABEL_LINES)]
    for label, weights in zip(rows, pooled, strict=True):
        line = Text(fit(label, frame.label, right=True) + " ")
        for weight in weights:
            line.append_text(_shade(float(weight), top, frame.cell, colour))
        lines.append(line)
    lines += _legend(pattern, frame, top, width, colour)
    return print_lines(lines)


def pool(
    pattern: Float[np.ndarray, "query key"], by: int, *, axis: int
) -> Float[np.ndarray, "pooled_query pooled_key"]:
    """Neighbours along an axis pooled by their maximum; NaN only where all of them are NaN."""
    if by <= 1:
        return pattern
    low = np.where(np.isnan(pattern), -np.inf, pattern)
    best = np.maximum.reduceat(low, np.arange(0, pattern.shape[axis], by), axis=axis)
    return np.where(np.isneginf(best), np.nan, best)


def paint(text: str, colour: RGB, *, ink: RGB | None = None) -> Text:
    """The text on a background of that colour, in black or white unless an ink is given."""
    style = Style(color=Color.from_rgb(*(ink or ink_on(colour))), bgcolor=Color.from_rgb(*colour))
    return Text.assemble((text, style))


@dataclass(frozen=True)
class _Frame:
    """How a map is laid out: cells of a row label and of a column, and how many are pooled."""

    label: int
    cell: int
    pool_rows: int
    pool_columns: int


def _frame(
    query_labels: Sequence[str], key_labels: Sequence[str], width: int, max_rows: int
) -> _Frame:
    longest = max(cell_len(one_line(label)) for label in query_labels)
    label = max(1, min(longest, _LABEL_CELLS, width // 4))
    room = max(2, width - label - 1)
    count = len(key_labels)
    wide = any(cell_len(part) > 1 for text in key_labels for part in clusters(one_line(text)))
    cell = 1 if room // 2 < count <= room and not wide else 2
    return _Frame(
        label=label,
        cell=cell,
        pool_rows=-(-len(query_labels) // max(1, max_rows)),
        pool_columns=-(-count // (room // cell)),
    )


def _shade(weight: float, top: float, cell: int, colour: bool) -> Text:
    if np.isnan(weight):
        return Text(" " * cell)
    part = weight / top
    step = sum(part >= bound for bound in STEPS)
    sign = SHADES[step]
    text = sign.ljust(cell) if sign == SHADES[0] else sign * cell
    if not colour:
        return Text(text)
    if step == 0:
        return Text(text, Style(dim=True))
    shade = terminal_shade(step)
    return paint(text, shade, ink=shade)


def _legend(
    pattern: Float[np.ndarray, "query key"], frame: _Frame, top: float, width: int, colour: bool
) -> list[Text]:
    bounds = [step * top for step in STEPS]
    ranges = [f"below {bounds[0]:g}"]
    ranges += [f"{low:g} to {high:g}" for low, high in itertools.pairwise(bounds)]
    ranges += [f"{bounds[-1]:g} and more"]
    middles = (0.0, *(sum(pair) / 2 for pair in zip(STEPS, (*STEPS[1:], 1.0), strict=True)))
    pieces = [Text("weight")]
    for middle, told in zip(middles, ranges, strict=True):
        pieces.append(_shade(middle * top, top, 2, colour).append_text(Text(" " + told)))
    if np.isnan(pattern).any():
        pieces.append(Text("blank: may not be seen"))
    lines = flow(pieces, width)
    words = [Text("rows look,"), Text("columns are looked at")]
    lines += flow(words, width, gap=1)
    if frame.pool_columns > 1 or frame.pool_rows > 1:
        lines += flow([Text(word) for word in _pool_words(frame).split()], width, gap=1)
    return lines


def _pool_words(frame: _Frame) -> str:
    told = [
        f"{name} pooled by {by}"
        for name, by in (("columns", frame.pool_columns), ("rows", frame.pool_rows))
        if by > 1
    ]
    return f"{' and '.join(told)}: the maximum is shown, labels name the first"


def _check(
    pattern: Float[np.ndarray, "query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
) -> None:
    wanted = (len(query_labels), len(key_labels))
    if pattern.shape != wanted or 0 in wanted:
        raise ShapeError(
            f"a pattern of shape {pattern.shape} came with {wanted[0]} query labels and "
            f"{wanted[1]} key labels; give one per row and one per column, at least one of each"
        )
