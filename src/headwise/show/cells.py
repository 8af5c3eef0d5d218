"""Text measured in terminal cells: a Chinese character or an emoji takes two."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from headwise.show.labels import one_line

__all__ = ["clusters", "fit", "fitting", "flow", "print_lines", "sentence", "vertical"]


def clusters(text: str) -> list[str]:
    """The text cut into what takes a place of its own: marks of no width stay with their letter."""
    found: list[str] = []
    for character in text:
        if found and cell_len(character) == 0:
            found[-1] += character
        elif cell_len(character) > 0:
            found.append(character)
    return found


def fit(label: str, width: int, *, right: bool = False) -> str:
    """The label in exactly `width` cells: cut with `…` where too long, padded where too short."""
    parts = clusters(one_line(label))
    if sum(map(cell_len, parts)) > width:
        parts = [*parts[: fitting(parts, width - 1)], "…" if width > 0 else ""]
    text = "".join(parts)
    pad = " " * (width - sum(map(cell_len, parts)))
    return pad + text if right else text + pad


def fitting(parts: Sequence[str], width: int) -> int:
    """How many of the parts, from the first on, fit into so many cells."""
    return bisect_right(list(accumulate(map(cell_len, parts))), width)


def vertical(labels: Sequence[str], cell: int, height: int) -> list[str]:
    """Lines that show each label downwards in a column of `cell` cells, standing on the last line.

    A label longer than `height` ends in `⋮`; a character wider than `cell` shows as `□`.
    """
    columns = [clusters(one_line(label)) for label in labels]
    tall = min(height, max(map(len, columns), default=0))
    cut = [parts if len(parts) <= tall else [*parts[: tall - 1], "⋮"] for parts in columns]
    stood = [[" "] * (tall - len(parts)) + parts for parts in cut]
    return ["".join(_in_cell(parts[row], cell) for parts in stood) for row in range(tall)]


def flow(pieces: Sequence[Text], width: int, *, indent: int = 0, gap: int = 2) -> list[Text]:
    """The pieces side by side, wrapped between pieces; a piece too long for a line is cut with `…`.

    The first line carries no indent (the caller has its own words there), the others do.
    """
    lines: list[Text] = [Text()]
    for piece in pieces:
        if piece.cell_len > width - indent:
            piece = piece.copy()
            piece.truncate(max(width - indent, 1), overflow="ellipsis")
        start = indent if len(lines) == 1 else 0
        room = width - start - lines[-1].cell_len
        if lines[-1].cell_len > 0 and piece.cell_len + gap > room:
            lines.append(Text(" " * indent))
            lines[-1].append_text(piece)
        else:
            lines[-1].append(" " * gap if lines[-1].cell_len > 0 else "").append_text(piece)
    return lines


def sentence(told: str, width: int, *, indent: int = 2) -> list[Text]:
    """The words on lines of a width, all but the first indented."""
    return flow([Text(word) for word in told.split()], width, gap=1, indent=indent)


def print_lines(lines: Sequence[Text]) -> Group:
    """The lines as they are: not wrapped again, nothing but spaces at their end taken off."""
    for line in lines:
        line.no_wrap = True
        line.overflow = "crop"
        if not line.spans:
            line.rstrip()
    return Group(*lines)


def _in_cell(character: str, cell: int) -> str:
    shown = character if cell_len(character) <= cell else "□"
    return shown + " " * (cell - cell_len(shown))
