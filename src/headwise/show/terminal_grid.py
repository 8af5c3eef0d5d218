"""All heads of a model on a terminal: layers x heads, one cell each, by what the head is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from headwise.names import HeadId, LayerId
from headwise.show.cells import fit, flow, print_lines
from headwise.show.grid import Grid, GridCell
from headwise.show.palette import kind_shade, kv_starts
from headwise.show.terminal_map import paint

__all__ = ["head_grid"]

_CORNER = "layer"


def head_grid(grid: Grid, *, width: int, colour: bool) -> RenderableType:
    """The grid layers x heads: each head's cell says what it is.

    A letter tells the kind, a capital that there is much of it; with `colour` the cell has the
    kind's colour, paler for less. `│` parts the KV groups of grouped-query attention. A head
    that is not in the grid (a pruned one) stays blank. Heads that do not fit beside one
    another in `width` cells continue in a block below, which says so.
    """
    if not grid.cells:
        return Text("no heads to show")
    by_id = {cell.id: cell for cell in grid.cells}
    lines: list[Text] = []
    for stream in dict.fromkeys(cell.id.stream for cell in grid.cells):
        shape = _shape([cell for cell in grid.cells if cell.id.stream == stream], width)
        for block in shape.blocks:
            lines += _block(by_id, shape, block, width, colour)
    lines += _legend(grid, width, colour)
    return print_lines(lines)


@dataclass(frozen=True)
class _Shape:
    """How a stream is laid out: its layers, the cells of a label and of a head, heads per block."""

    layers: tuple[LayerId, ...]
    label: int
    cell: int
    starts: tuple[int, ...]
    groups: dict[int, int]
    blocks: tuple[range, ...]


def _shape(cells: Sequence[GridCell], width: int) -> _Shape:
    layers = tuple(sorted({one.id.layer_id for one in cells}))
    count = 1 + max(one.id.head for one in cells)
    groups = {one.id.head: one.kv_group for one in cells}
    starts = kv_starts(groups)
    label = max(len(_CORNER), *(len(str(layer)) for layer in layers))
    room = max(1, width - label - 1)
    cell = next((size for size in (3, 2, 1) if count * size + len(starts) <= room), 1)
    return _Shape(layers, label, cell, starts, groups, _blocks(count, starts, room, cell))


def _blocks(count: int, starts: tuple[int, ...], room: int, cell: int) -> tuple[range, ...]:
    """As few even blocks of heads as fit in the room, cut between KV groups where that works."""
    for blocks in range(1, count + 1):
        size = -(-count // blocks)
        if starts:
            group = starts[0]
            size = -(-size // group) * group if group < size else size
        spans = [range(start, min(start + size, count)) for start in range(0, count, size)]
        if all(len(_marks(span, starts)) + len(span) * cell <= room for span in spans):
            return tuple(spans)
    return tuple(range(head, head + 1) for head in range(count))


def _marks(block: range, starts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(start for start in starts if start in block and start != block.start)


def _block(
    by_id: Mapping[HeadId, GridCell], shape: _Shape, block: range, width: int, colour: bool
) -> list[Text]:
    lines = [Text("")] if shape.layers[0].stream or block.start > 0 else []
    if len(shape.blocks) > 1:
        told = f"heads {block.start} to {block.stop - 1} of {shape.blocks[-1].stop}"
        lines.append(Text(fit(told, width).rstrip()))
    lines += _header(shape, block)
    for layer in shape.layers:
        line = Text(f"{layer!s:>{shape.label}} ")
        for head in block:
            if head in _marks(block, shape.starts):
                line.append("│")
            line.append_text(_cell(by_id.get(layer.head(head)), shape.cell, colour))
        lines.append(line)
    return lines


def _cell(one: GridCell | None, size: int, colour: bool) -> Text:
    if one is None:
        return Text(" " * size)
    text = one.code.ljust(size) if size < 3 else f" {one.code} "
    return paint(text, kind_shade(one.kind, one.mass)) if colour else Text(text)


def _header(shape: _Shape, block: range) -> list[Text]:
    """The KV groups (where heads share keys and values) above the numbers of the heads."""
    marks = _marks(block, shape.starts)
    lines = []
    if shape.starts:
        edges = (block.start, *marks, block.stop)
        spans = itertools.pairwise(edges)
        names = [
            _centred(str(shape.groups.get(start, "")), (stop - start) * shape.cell)
            for start, stop in spans
        ]
        lines.append(Text(f"{'kv':>{shape.label}} " + "│".join(names)))
    numbers = [str(head) for head in block]
    digits = max(map(len, numbers))
    upright = digits >= shape.cell
    rows = range(digits) if upright else range(1)
    for row in rows:
        line = Text(f"{_CORNER if row == rows[-1] else '':>{shape.label}} ")
        for head, number in zip(block, numbers, strict=True):
            mark = "│" if head in marks else ""
            shown = number.rjust(digits)[row] if upright else number
            line.append(mark + (shown.ljust(shape.cell) if shape.cell < 3 else f"{shown:^3}"))
        lines.append(line)
    return lines


def _centred(text: str, size: int) -> str:
    return text.center(size) if len(text) <= size else " " * size


def _legend(grid: Grid, width: int, colour: bool) -> list[Text]:
    counts = grid.counts()
    pieces = []
    for kind in grid.kinds:
        chip = paint(f" {kind.codes} ", kind.colour) if colour else Text(kind.codes)
        pieces.append(Text.assemble(chip, f" {kind.does} {counts[kind.does]}"))
    how = f"{len(grid.cells)} heads; {grid.codes}"
    lines = [Text(""), *flow(pieces, width)]
    if colour:
        how += "; stronger colour: more"
    if any(one.kv_group != one.id.head for one in grid.cells):
        how += "; kv: heads between bars share keys and values"
    return lines + flow([Text(word) for word in how.split()], width, gap=1)
