"""Reach on a terminal: rows are reached, columns reach, each cell says after how many layers."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from headwise.core.reach import Reach
from headwise.show.cells import fit, flow, print_lines
from headwise.show.palette import RGB, weight_shade
from headwise.show.terminal_map import paint

__all__ = ["reach_map"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MORE = "+"
_MARGIN = 18
"""Cells beside the map: the row's number, and how many positions reach it."""


def reach_map(reach: Reach, *, title: str, width: int, colour: bool) -> RenderableType:
    """The map of a reach: each cell the layer at which a path opens, blank where none does.

    Args:
        reach: of one text; of a batch the first is shown.
        title: the line above.
        width: cells of a line; a longer sequence shows its last positions, and a line says so.
        colour: paler where a path opens later.
    """
    first = reach.first[0]
    length = first.shape[0]
    shown = min(length, max(1, (width - _MARGIN)))
    wide = 2 if 2 * shown <= width - _MARGIN else 1
    start = length - shown
    label = max(2, len(str(length - 1)))
    lines = [Text(fit(title, width).rstrip(), style="bold" if colour else "")]
    lines += [Text(" " * (label + 1) + line) for line in _numbers(range(start, length), wide)]
    contexts, backs = reach.context()[0].tolist(), reach.back()[0].tolist()
    for q in range(start, length):
        line = Text(f"{q:>{label}} ")
        for k in range(start, length):
            line.append_text(_cell(int(first[q, k]), reach.layers, wide, colour))
        line.append(f"  {contexts[q]:>4} {backs[q]:>5}")
        lines.append(line)
    return print_lines([*lines, Text(""), *_legend(reach, start, width)])


def _numbers(positions: range, wide: int) -> list[str]:
    """The columns' numbers, upright, and what the two columns behind are."""
    digits = len(str(positions[-1]))
    rows = ["".join(f"{p:>{digits}}"[row].ljust(wide) for p in positions) for row in range(digits)]
    return [*rows[:-1], f"{rows[-1]}  from  back"]


def _cell(layer: int, layers: int, wide: int, colour: bool) -> Text:
    if layer < 0:
        return Text(" " * wide)
    code = _DIGITS[layer] if layer < len(_DIGITS) else _MORE
    return paint(code.ljust(wide), _shade(layer, layers)) if colour else Text(code.ljust(wide))


def _shade(layer: int, layers: int) -> RGB:
    """Dark where a path is open from the start."""
    return weight_shade(1 - 0.85 * layer / max(layers, 1))


def _legend(reach: Reach, start: int, width: int) -> list[Text]:
    said = (
        f"row q, column k: after how many of {reach.layers} layers the input of k can be in the output of q; "
        "blank: never; from: how many positions reach q; back: how far the furthest before it is"
    )
    opens = reach.opens
    if opens is not None and opens < reach.layers:
        said += f"; nothing more is reached after layer {opens}"
    if start:
        said += (
            f"; positions {start} to {reach.first.shape[1] - 1} of {reach.first.shape[1]} are shown"
        )
    if reach.first.shape[0] > 1:
        said += f"; the first of {reach.first.shape[0]} texts"
    return flow([Text(word) for word in said.split()], width, gap=1)
