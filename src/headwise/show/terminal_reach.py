"""Reach on a terminal: rows are reached, columns reach, each cell says after how many layers."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

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

    Behind a decoder's own map stands that of its encoder's positions.

    Args:
        reach: of one text; of a batch the first is shown.
        title: the line above.
        width: cells of a line; a longer sequence shows its last positions, and a line says so.
        colour: paler where a path opens later.
    """
    most = max(1, width - _MARGIN)
    length = reach.first.shape[1]
    rows = range(max(reach.start, length - most), length)
    keys = range(max(0, length - most), length)
    lines = [Text(fit(title, width).rstrip(), style="bold" if colour else "")]
    sides = {"from": reach.context()[0].tolist(), "back": reach.back()[0].tolist()}
    lines += _block(reach.first[0], rows, keys, sides, reach.layers, most, colour)
    lines += [Text(""), *_legend(reach, rows, keys, width)]
    if reach.memory is not None:
        lines += [Text(""), *_from_memory(reach, rows, most, width, colour)]
    return print_lines(lines)


def _from_memory(reach: Reach, rows: range, most: int, width: int, colour: bool) -> list[Text]:
    """The map of the encoder's positions, and what it says."""
    assert reach.memory is not None
    length = reach.memory.shape[2]
    keys = range(max(0, length - most), length)
    sides = {"from": reach.context(memory=True)[0].tolist()}
    said = (
        "row q of the decoder, column k of the encoder: after how many of the decoder's layers the input of k can "
        "be in the output of q; from: how many of the encoder's positions reach q"
    )
    if keys.start:
        said += f"; columns {keys.start} to {length - 1} of {length} are shown"
    heading = Text("from the encoder", style="bold" if colour else "")
    block = _block(reach.memory[0], rows, keys, sides, reach.layers, most, colour)
    return [heading, *block, Text(""), *_flowed(said, width)]


def _block(
    first: Tensor,
    rows: range,
    keys: range,
    sides: dict[str, list[int]],
    layers: int,
    most: int,
    colour: bool,
) -> list[Text]:
    """The columns' numbers, then a line for each row with its numbers behind."""
    wide = 2 if 2 * len(keys) <= most else 1
    label = max(2, len(str(rows[-1])))
    heads = _numbers(keys, wide)
    heads[-1] += "".join(f"{name:>6}" for name in sides)
    lines = [Text(" " * (label + 1) + line) for line in heads]
    for q in rows:
        line = Text(f"{q:>{label}} ")
        for k in keys:
            line.append_text(_cell(int(first[q, k]), layers, wide, colour))
        line.append("".join(f"{numbers[q]:>6}" for numbers in sides.values()))
        lines.append(line)
    return lines


def _numbers(positions: range, wide: int) -> list[str]:
    """The columns' numbers, upright."""
    digits = len(str(positions[-1]))
    return ["".join(f"{p:>{digits}}"[row].ljust(wide) for p in positions) for row in range(digits)]


def _cell(layer: int, layers: int, wide: int, colour: bool) -> Text:
    if layer < 0:
        return Text(" " * wide)
    code = _DIGITS[layer] if layer < len(_DIGITS) else _MORE
    return paint(code.ljust(wide), _shade(layer, layers)) if colour else Text(code.ljust(wide))


def _shade(layer: int, layers: int) -> RGB:
    """Dark where a path is open from the start."""
    return weight_shade(1 - 0.85 * layer / max(layers, 1))


def _legend(reach: Reach, rows: range, keys: range, width: int) -> list[Text]:
    layers = f"{reach.layers} layer{'' if reach.layers == 1 else 's'}"
    said = (
        f"row q, column k: after how many of {layers} the input of k can be in the output of q; "
        "blank: never; from: how many positions reach q; back: how far the furthest before it is"
    )
    deepest = int(reach.first[0].max())
    if deepest >= 10:
        last = min(deepest, len(_DIGITS) - 1)
        said += f"; a to {_DIGITS[last]}: 10 to {last}" if last > 10 else "; a: 10"
        said += f", {_MORE}: more" if deepest > last else ""
    opens = reach.opens
    if opens is not None:
        said += f"; nothing more is reached after layer {opens}"
    length = reach.first.shape[1]
    if keys.start:
        said += f"; positions {keys.start} to {length - 1} of {length} are shown"
    if reach.start:
        said += f"; the first {reach.start} come out of a cache"
    if reach.first.shape[0] > 1:
        said += f"; the first of {reach.first.shape[0]} texts"
    return _flowed(said, width)


def _flowed(said: str, width: int) -> list[Text]:
    return flow([Text(word) for word in said.split()], width, gap=1)
