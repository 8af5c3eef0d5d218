"""A ranking of heads on a terminal: the grid, the strongest and weakest heads, and how far the order is settled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from headwise.show.cells import fit, flow, print_lines, sentence
from headwise.show.ranked import Ranked, grid_of_ranked
from headwise.show.terminal_grid import head_grid
from headwise.show.words import figure

__all__ = ["Compared", "Settled", "compared_table", "rank_page"]

_STABLE = 0.95
"""From this rank correlation of the halves on, the order counts as settled."""


@dataclass(frozen=True)
class Settled:
    """How far the order is settled.

    Attributes:
        stability: rank correlation of the rankings by two halves of the texts; NaN where there is none.
        texts: how many texts were read.
        needed: how many it takes about; None where that cannot be told.
    """

    stability: float
    texts: int
    needed: int | None


@dataclass(frozen=True)
class Compared:
    """Rankings by several methods: how stable each is, and the rank correlation of each with each."""

    methods: tuple[str, ...]
    stability: Mapping[str, float]
    seconds: Mapping[str, float]
    correlations: Mapping[tuple[str, str], float]


def rank_page(
    heads: Sequence[Ranked], settled: Settled, says: str, *, top: int, width: int, colour: bool
) -> RenderableType:
    """The grid, so many of the strongest and weakest heads with standard errors, and how settled their order is.

    Args:
        heads: most important first.
        settled: how far their order is.
        says: what the numbers are, with their unit.
        top: how many heads of each end.
        width: cells of a line.
        colour: whether cells may be coloured.
    """
    grid = head_grid(grid_of_ranked(heads, says), width=width, colour=colour)
    lines = [Text()]
    if top:
        lines += _listed("strongest", heads[:top], width)
        lines += _listed("weakest", heads[::-1][:top], width)
    lines += sentence(_settled(settled), width)
    return Group(grid, print_lines(lines))


def compared_table(found: Compared, *, width: int) -> RenderableType:
    """Methods by methods: how alike they rank the heads."""
    label, size = max(map(len, found.methods)), 4
    shown = max(1, (width - label - 10) // (size + 1))
    says = "rank correlation (Spearman) of the heads' order by each method with that by the others:"
    lines = sentence(says, width, indent=0)
    numbers = [str(i) for i in range(1, len(found.methods) + 1)]
    head = f"{'':<{label + 3}} {'halves':>6} "
    lines.append(
        Text(fit(head + " ".join(f"{n:>{size}}" for n in numbers[:shown]), width).rstrip())
    )
    for number, method in zip(numbers, found.methods, strict=True):
        cells = [
            _correlation(found.correlations[method, other], size) for other in found.methods[:shown]
        ]
        own = _correlation(found.stability[method], 6)
        told = f"{number:>2} {method:<{label}} {own} {' '.join(cells)}"
        lines.append(Text(fit(told, width).rstrip()))
    took = ", ".join(f"{method} {figure(found.seconds[method])}" for method in found.methods)
    told = "halves: of the same method on two halves of the texts"
    return print_lines([*lines, *sentence(told, width), *sentence(f"seconds: {took}", width)])


def _listed(name: str, heads: Sequence[Ranked], width: int) -> list[Text]:
    pieces = []
    for one in heads:
        error = "" if math.isnan(one.error) else f" ± {figure(one.error)}"
        pieces.append(Text(f"{one.id} {figure(one.value)}{error}"))
    size = max(map(cell_len, (piece.plain for piece in pieces)), default=0)
    padded = [Text(fit(piece.plain, size)) for piece in pieces]
    first, *others = flow(padded, width, indent=11)
    return [Text(f"{name:<9}  ").append_text(first), *others]


def _settled(settled: Settled) -> str:
    if math.isnan(settled.stability):
        return (
            "too few texts to tell how settled the order is (pieces of one text are one); --lines or --blocks N "
            "makes several of a file"
        )
    told = f"the order by one half of the texts and by the other: rank correlation {settled.stability:.3f}"
    if settled.stability >= _STABLE:
        return f"{told}, which is settled"
    if settled.needed is None:
        return f"{told}; more texts would settle it"
    return f"{told}; about {settled.needed:,} texts would settle it (here {settled.texts:,})"


def _correlation(x: float, size: int) -> str:
    told = "" if math.isnan(x) else f"{x:.2f}".replace("0.", ".", 1)
    return f"{told:>{size}}"
