"""An audit on a terminal: a line for each thing checked, then each leak with its place, positions and map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.check.telling.report import Audit, Outcome
from headwise.show.audit_cells import (
    CLEAN,
    LEAK,
    QUIET,
    SEEN,
    UNTRIED,
    cells_of,
    limit_of,
    maps_of,
    tried_of,
)
from headwise.show.audit_words import conclusion, facts_of, number, strength_of
from headwise.show.cells import fit, flow, print_lines, vertical
from headwise.show.labels import one_line
from headwise.show.palette import RGB
from headwise.show.terminal_map import paint

__all__ = ["audit_report", "conclusion"]

_STYLES = {"clean": "green", "leak": "bold red", "differs": "bold red", "unknown": "yellow"}
_HEADS = ("dimension", "verdict", "strength", "smallest seen")
_WIDEST_TITLE = 24
_LEAST_PLACE = 20
"""Cells below which what stands last in a line of the table has a line of its own."""
_INDENT = 2
_PAIRS = 8
_ROWS = 32
"""Positions that a map shows apart; more are pooled."""
_LABEL = 14

_SIGNS = {CLEAN: " ", UNTRIED: "?", QUIET: "░", SEEN: "▓", LEAK: "X"}
_SAYS = {
    SEEN: "may be seen, and is",
    QUIET: "may be seen, and was not",
    LEAK: "may not be seen, and is",
    CLEAN: "may not be seen, and is not",
    UNTRIED: "not tried",
}
_COLOURS: dict[int, RGB] = {SEEN: (95, 175, 215), QUIET: (215, 255, 255), LEAK: (215, 95, 0)}


def audit_report(
    audit: Audit, *, width: int, colour: bool, labels: Sequence[str] | None = None
) -> RenderableType:
    """All that an audit found.

    Args:
        audit: from `hw.audit`.
        width: cells of a line.
        colour: colours as well as signs; without them the text is plain.
        labels: of the positions, where a text was read.
    """
    lines = _headline(audit, width, colour)
    told = [outcome for outcome in audit.outcomes if outcome.verdict != "skipped"]
    if told:
        lines += [Text(), *_table(told, width, colour)]
    lines += _skipped(audit, width)
    lines += _tried(told, width)
    advised = (outcome for outcome in audit.unknown if outcome.advice)  # the table says all else
    mapped: set[str] = set()  # one map for each dimension: its other cases look alike
    for outcome in (*audit.leaks, *advised):
        lines += [Text(), *_told(outcome, width, labels, colour)]
        if outcome.verdict == "leak" and outcome.dimension not in mapped:
            mapped.add(outcome.dimension)
            lines += _map(outcome, _names_of(outcome, labels), width, colour)
    if audit.notes:
        lines.append(Text())
    lines += [line for note in audit.notes for line in flow(_words(note), width, gap=1)]
    return print_lines(lines)


def _headline(audit: Audit, width: int, colour: bool) -> list[Text]:
    good = "bold green" if audit.clean else "bold red" if audit.leaks else "bold yellow"
    said = _words(conclusion(audit), good if colour else "")
    head = flow([*_words(f"{one_line(audit.name)}:"), *said], width, gap=1)
    return [*head, *flow(_words(facts_of(audit)), width, gap=1)]


def _skipped(audit: Audit, width: int) -> list[Text]:
    """What does not apply, and why, after each other."""
    left = [o for o in audit.outcomes if o.verdict == "skipped"]
    if not left:
        return []
    told = "; ".join(f"{one_line(o.title)} ({one_line(o.says)})" for o in left)
    return [Text(), *flow(_words(f"not checked: {told}"), width, gap=1)]


def _tried(outcomes: Sequence[Outcome], width: int) -> list[Text]:
    """Where not all positions were tried: of how many, and in which cases."""
    found: dict[tuple[int, int], list[str]] = {}
    for outcome in outcomes:
        count = tried_of(outcome)
        if count is not None and count[0] < count[1]:
            found.setdefault(count, []).append(one_line(outcome.title))
    said = (
        f"tried at {few} of the {all_} positions that count: {', '.join(titles)}"
        for (few, all_), titles in found.items()
    )
    return [line for text in said for line in [Text(), *flow(_words(text), width, gap=1)]]


def _table(outcomes: Sequence[Outcome], width: int, colour: bool) -> list[Text]:
    """Each outcome: what, verdict, how strong, the smallest that would be seen, where it enters or why not told."""
    titles = [fit(o.title, min(cell_len(o.title), _WIDEST_TITLE)) for o in outcomes]
    size = max([len(_HEADS[0]), *map(cell_len, titles)])
    widths = [size, *(len(head) for head in _HEADS[1:])]
    while sum(widths) + 2 * len(widths) > width and len(widths) > 2:
        widths.pop()
    lead = sum(widths) + 2 * len(widths)
    apart = width - lead < _LEAST_PLACE
    heads = "  ".join(fit(head, w) for head, w in zip(_HEADS, widths, strict=False))
    lines = [Text(heads if apart else f"{heads}  module")]
    for title, outcome in zip(titles, outcomes, strict=True):
        style = _STYLES.get(outcome.verdict, "dim") if colour else ""
        line = Text(fit(title, widths[0]) + "  ")
        line.append(fit(outcome.verdict, widths[1]), style=style)
        for value, wide in zip(_numbers(outcome), widths[2:], strict=False):
            line.append("  " + value.rjust(wide))
        lines += _beside(line, _words(_last(outcome)), width, 4 if apart else lead, apart)
    return lines


def _last(outcome: Outcome) -> str:
    """Where it enters, or why there is no verdict."""
    return outcome.says if outcome.verdict == "unknown" else outcome.place


def _numbers(outcome: Outcome) -> tuple[str, str]:
    measured = outcome.bad or outcome.verdict == "clean"
    return number(outcome.strength) if measured else "", number(outcome.smallest)


def _beside(line: Text, words: Sequence[Text], width: int, indent: int, apart: bool) -> list[Text]:
    """The words after a line, wrapped below each other, or all on lines of their own."""
    if not words:
        return [line]
    first, *others = flow(words, width, indent=indent, gap=1)
    if apart:
        return [line, Text(" " * indent).append_text(first), *others]
    return [line.append("  ").append_text(first), *others]


def _told(outcome: Outcome, width: int, labels: Sequence[str] | None, colour: bool) -> list[Text]:
    """One leak: what, where, how strongly, which positions, and what it may be."""
    title = _words(f"{outcome.title}: {outcome.verdict}", "bold" if colour else "")
    lines = flow([*title, *_words(f"- {outcome.says}")], width, gap=1)
    if outcome.place:
        lines += _indented(f"enters in {outcome.place}", width)
    if outcome.bad:
        lines += _indented(strength_of(outcome), width)
    if outcome.pairs:
        lines += _pairs(outcome, _names_of(outcome, labels), width)
    return lines + (_indented(outcome.advice, width) if outcome.advice else [])


def _names_of(outcome: Outcome, labels: Sequence[str] | None) -> Sequence[str] | None:
    """The tokens, where the outcome's positions are those of the text."""
    if labels is None or outcome.dimension != "future":
        return None
    other = outcome.allowed is not None and outcome.allowed.shape[0] != len(labels)
    return None if other else labels


def _pairs(outcome: Outcome, labels: Sequence[str] | None, width: int) -> list[Text]:
    """`query sees key`, strongest first; of a comparison the positions that differ."""
    shown = outcome.pairs[:_PAIRS]
    if outcome.verdict == "leak":
        said = [f"{_position(q, labels)} sees {_position(k, labels)}" for q, k in shown]
        lead = "position"
    else:
        said = [_position(q, labels) for q, _ in shown]
        lead = "differs at position"
    said = [f"{text}," for text in said[:-1]] + said[-1:]
    more = len(outcome.pairs) > len(
        shown
    )  # they hold the strongest alone: how many there are `says` tells
    end = _words(", ...; the strongest of them" if outcome.verdict == "leak" else ", ...")
    if more:
        said[-1] += end.pop(0).plain
    pieces = [*_words(lead), *map(Text, said), *(end if more else [])]
    return _pieces_indented(pieces, width)


def _position(place: int, labels: Sequence[str] | None) -> str:
    if labels is None or place >= len(labels):
        return str(place)
    return f"{place} {fit(labels[place], min(_LABEL, cell_len(one_line(labels[place]))))}"


def _map(outcome: Outcome, labels: Sequence[str] | None, width: int, colour: bool) -> list[Text]:
    """Declared against measured, rows look and columns are looked at; "" where there is no map."""
    maps = maps_of(outcome)
    if maps is None or 0 in maps[0].shape:
        return []
    cells = cells_of(outcome, *maps)
    rows, columns = cells.shape
    names = [str(row) if labels is None else _position(row, labels) for row in range(rows)]
    margin = _INDENT + max(map(cell_len, names)) + 1
    room = max(2, width - margin)
    wide = 2 if 2 * min(columns, _ROWS) <= room else 1
    across, down = -(-columns // min(_ROWS, room // wide)), -(-rows // _ROWS)
    pooled = _pool(_pool(cells, down, 0), across, 1)
    heads = [str(column) for column in range(0, columns, across)]
    lines = [Text(" " * margin + line) for line in vertical(heads, wide, 4)]
    for name, row in zip(names[::down], pooled, strict=True):
        line = Text(fit(name, margin - 1, right=True) + " ")
        for cell in row.tolist():
            line.append_text(_cell(cell, wide, colour))
        lines.append(line)
    return [*lines, *_legend(outcome, pooled, (down, across), width, colour)]


def _pool(cells: Int[np.ndarray, "row column"], by: int, axis: int) -> Int[np.ndarray, "_ _"]:
    """Neighbours pooled by what says most."""
    if by == 1:
        return cells
    return np.maximum.reduceat(cells, np.arange(0, cells.shape[axis], by), axis=axis)


def _cell(cell: int, wide: int, colour: bool) -> Text:
    sign = _SIGNS[cell]
    text = sign * wide if cell in (QUIET, SEEN) else sign.ljust(wide)
    return paint(text, _COLOURS[cell]) if colour and cell in _COLOURS else Text(text)


def _legend(
    outcome: Outcome,
    cells: Int[np.ndarray, "row column"],
    pooled: tuple[int, int],
    width: int,
    colour: bool,
) -> list[Text]:
    held = set(np.unique(cells).tolist())
    pieces = []
    for cell, says in _SAYS.items():
        if cell in held:
            sign = Text("blank") if cell == CLEAN else _cell(cell, 1, colour)
            pieces.append(sign.append_text(Text(f" {says}")))
    lines = _pieces_indented(pieces, width, gap=3)
    said = f"rows see, columns are seen; seen: an influence above {number(limit_of(outcome))}"
    if max(pooled) > 1:
        said += (
            f"; {pooled[0]} rows and {pooled[1]} columns in one cell, which shows what says most"
        )
    return [*lines, *_indented(said, width)]


def _indented(text: str, width: int) -> list[Text]:
    return _pieces_indented(_words(text), width)


def _pieces_indented(pieces: Sequence[Text], width: int, gap: int = 1) -> list[Text]:
    lines = flow(pieces, width - _INDENT, gap=gap)
    return [Text(" " * _INDENT).append_text(line) for line in lines]


def _words(text: str, style: str = "") -> list[Text]:
    return [Text(one_line(word), style=style) for word in text.split()]
