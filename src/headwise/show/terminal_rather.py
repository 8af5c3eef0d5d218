"""Which heads of a word look rather at one word than at another, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from headwise.see.preferring import LEAST, TIMES, Preference
from headwise.show.cells import flow, print_lines
from headwise.show.labels import one_line

__all__ = ["rather_lines"]


def rather_lines(
    found: Sequence[Preference], *, word: str, one: str, other: str, width: int, most: int = 6
) -> RenderableType:
    """Who prefers which, strongest first, and how many do; says so where no head prefers either.

    Args:
        found: of every head, the one that gives the first word most more first.
        word: that looks.
        one, other: looked at.
        width: cells of a line.
        most: how many heads are named on each side.
    """
    word, one, other = map(one_line, (word, one, other))
    lines: list[Text] = []
    sides = (
        (one, other, [x for x in found if x.prefers_one]),
        (other, one, [x for x in reversed(found) if x.prefers_other]),
    )
    for liked, left, heads in sides:
        what = f"{word} looks rather at {liked} than at {left} in"
        if not heads:
            lines += _flowed(f"{what} no head", width)
            continue
        lines += _flowed(
            f"{what} {len(heads)} of {len(found)} heads (weight on {liked}, on {left}):", width
        )
        for x in heads[:most]:
            mine, theirs = (x.one, x.other) if liked == one else (x.other, x.one)
            lines.append(Text(f"  {x.head!s:<14}{mine:.2f}  {theirs:.2f}"))
        if len(heads) > most:
            lines.append(Text(f"  and {len(heads) - most} more"))
    lines += _flowed(
        f"(rather: at least {LEAST:g} of the row, and {TIMES:g} times what the other gets)", width
    )
    return print_lines(lines)


def _flowed(said: str, width: int) -> list[Text]:
    return flow([Text(part) for part in said.split()], width, gap=1)
