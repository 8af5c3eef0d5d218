"""What a cut did to a model's size, on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from headwise.show.cells import fit, print_lines
from headwise.show.words import bytes_said, figure, seconds_said, sized

__all__ = ["Point", "Size", "curve_table", "sizes_table"]


_SAID: Mapping[str, Callable[[float], str]] = {
    "count": lambda x: sized(round(x)),
    "bytes": lambda x: bytes_said(round(x)),
    "seconds": seconds_said,
}


@dataclass(frozen=True)
class Size:
    """A count, bytes or seconds, before and after."""

    name: str
    before: float
    after: float
    of: Literal["count", "bytes", "seconds"] = "count"


@dataclass(frozen=True)
class Point:
    """A way to choose heads, the share it removed, and the loss after; with ends over draws where it has some."""

    name: str
    removed: float
    loss: float
    low: float = math.nan
    high: float = math.nan


def curve_table(points: Sequence[Point], *, width: int) -> RenderableType:
    """Losses by the share of heads removed: a line for each share, a column for each way."""
    names = list(dict.fromkeys(point.name for point in points))
    shares = sorted({point.removed for point in points})
    rows = [["removed", *names]]
    for share in shares:
        cells = [_point(points, name, share) for name in names]
        rows.append([f"{share:.1%}", *cells])
    columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [Text()]
    for row in rows:
        told = "  ".join(f"{cell:>{size}}" for cell, size in zip(row, columns, strict=True))
        lines.append(Text(fit(told, min(width, len(told)))))
    return print_lines(lines)


def _point(points: Sequence[Point], name: str, share: float) -> str:
    for point in points:
        if (point.name, point.removed) == (name, share):
            ends = "" if math.isnan(point.low) else f" [{figure(point.low)}, {figure(point.high)}]"
            return f"{figure(point.loss)}{ends}"
    return ""


def sizes_table(sizes: Sequence[Size], *, width: int) -> RenderableType:
    """A line for each: before, after, and the share that is left."""
    rows = [("", "before", "after", "left"), *map(_cells, sizes)]
    columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [Text()]
    for name, *cells in rows:
        told = "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, columns[1:], strict=True))
        lines.append(Text(fit(f"{name:<{columns[0]}}  {told}", width).rstrip()))
    return print_lines(lines)


def _cells(size: Size) -> tuple[str, str, str, str]:
    said = _SAID[size.of]
    left = f"{size.after / size.before:.1%}" if size.before else ""
    return size.name, said(size.before), said(size.after), left
