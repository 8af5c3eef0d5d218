"""All heads of a model on a terminal: layers x heads, one cell each, by what the head does most."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from headwise.names import HeadId, LayerId
from headwise.see.summary import HeadSummary
from headwise.show.cells import fit, flow, print_lines
from headwise.show.palette import KINDS, STRONG, count_kinds, kind_of, kind_shade, kv_starts
from headwise.show.terminal_map import paint

__all__ = ["head_grid"]

_CORNER = "layer"


def head_grid(summaries: Sequence[HeadSummary], *, width: int, colour: bool) -> RenderableType:
    """The grid layers x heads: each head's cell says what it does most on the text.

    A letter tells the kind, a capital that its mass is 0.5 or more; with `colour` the cell has the
    kind's colour, paler for less mass. `│` parts the KV groups of grouped-query attention. A head
    that is not among the summaries (a pruned one) stays blank. Heads that do not fit beside one
    another in `width` cells continue in a block below, which says so.
    """
    if not summaries:
        return Text("no heads to show")
    by_id = {summary.id: summary for summary in summaries}
    lines: list[Text] = []
    for stream in dict.fromkeys(summary.id.stream for summary in summaries):
        shape = _shape([summary for summary in summaries if summary.id.stream == stream], width)
        for block in shape.blocks:
            lines += _block(by_id, shape, block, width, colour)
    lines += _legend(summaries, by_id, width, colour)
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


def _shape(summaries: Sequence[HeadSummary], width: int) -> _Shape:
    layers = tuple(sorted({summary.id.layer_id for summary in summaries}))
    count = 1 + max(summary.id.head for summary in summaries)
    groups = {summary.id.head: summary.kv_group for summary in summaries}
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
    by_id: Mapping[HeadId, HeadSummary], shape: _Shape, block: range, width: int, colour: bool
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


def _cell(summary: HeadSummary | None, size: int, colour: bool) -> Text:
    if summary is None:
        return Text(" " * size)
    kind = kind_of(summary)
    code = kind.strong if summary.mass >= STRONG else kind.weak
    text = code.ljust(size) if size < 3 else f" {code} "
    return paint(text, kind_shade(kind, summary.mass)) if colour else Text(text)


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


def _legend(
    summaries: Sequence[HeadSummary],
    by_id: Mapping[HeadId, HeadSummary],
    width: int,
    colour: bool,
) -> list[Text]:
    counts = count_kinds(summaries)
    pieces = []
    for kind in KINDS.values():
        code = kind.strong if kind.strong == kind.weak else f"{kind.strong} {kind.weak}"
        chip = paint(f" {code} ", kind.colour) if colour else Text(code)
        pieces.append(Text.assemble(chip, f" {kind.does} {counts[kind.does]}"))
    how = f"{len(by_id)} heads; P S F = where the mean weight is {STRONG:g} or more, p s f - below"
    lines = [Text(""), *flow(pieces, width)]
    if colour:
        how += "; stronger colour: more"
    if any(summary.kv_group != summary.id.head for summary in summaries):
        how += "; kv: heads between bars share keys and values"
    return lines + flow([Text(word) for word in how.split()], width, gap=1)
