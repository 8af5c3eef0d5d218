"""A profile on a terminal: for each probe and statistic the heads that have most of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from headwise.see.profile.striking import Best, Ranking
from headwise.show.cells import fit, flow, print_lines

__all__ = ["profile_table"]

_GAP = 3
_MEAN = "mean attention to the key the probe names"
_INTERVAL = " ± 95 % interval"
_HITS = ", then its hits (share of queries whose most attended key it is)"
_TOO_FEW = " (too few texts for intervals)"
_OTHERS = (
    "most of: evenness (entropy / the most it can be), largest weight, distance in tokens, result_share "
    "(share of what the layer adds, measured on a sample of the queries):"
)


@dataclass(frozen=True)
class _Columns:
    """What is told of a head beside its id and its value."""

    interval: bool
    hits: bool

    def cell(self, best: Best, ids: int) -> str:
        text = f"{best.head!s:<{ids}} {_number(best.value)}"
        if self.interval:
            known = not math.isnan(best.within)
            text += f" {f'±{_number(best.within).strip()}' if known else '':<4}"
        return f"{text} {best.hits:>4.0%}" if self.hits and best.hits is not None else text

    def caption(self, some: bool) -> str:
        """What the probes' columns are; `some`: whether an interval is known of any head."""
        interval = _INTERVAL if self.interval else "" if some else _TOO_FEW
        return f"{_MEAN}{interval}{_HITS if self.hits else ''}:"


def profile_table(rankings: Sequence[Ranking], *, width: int, colour: bool) -> RenderableType:
    """One line per probe and statistic: its name, and as many of its strongest heads as fit.

    Where not even one fits whole, the hits are left out, then the intervals; the caption says what is there.

    Args:
        rankings: from `striking`.
        width: cells of a line.
        colour: whether the strongest may be shown in bold.
    """
    bests = [best for ranking in rankings for best in ranking.best]
    names = max((len(ranking.name) for ranking in rankings), default=0)
    ids = max((len(str(best.head)) for best in bests), default=0)
    some = any(not math.isnan(best.within) for best in bests)
    columns = _fitting(bests, ids, some, width - names - _GAP)
    texts = {id(best): columns.cell(best, ids) for best in bests}
    cell = max((len(text) for text in texts.values()), default=0)
    room = max(1, (width - names) // (cell + _GAP))
    lines: list[Text] = []
    for probe, says in ((True, columns.caption(some or not bests)), (False, _OTHERS)):
        part = [ranking for ranking in rankings if ranking.probe == probe]
        if not part:
            continue
        lines += [Text(), *flow([Text(word) for word in says.split()], width, gap=1)]
        for ranking in part:
            line = Text(fit(ranking.name, names))
            for place, best in enumerate(ranking.best[:room]):
                style = "bold" if colour and place == 0 else ""
                line.append(" " * _GAP).append(texts[id(best)].ljust(cell), style)
            if not ranking.best:
                line.append(" " * _GAP + "no head")
            lines.append(line)
    return print_lines(lines[1:])


def _fitting(bests: Sequence[Best], ids: int, some: bool, room: int) -> _Columns:
    """As much of each head as fits into so many cells."""
    choices = [_Columns(some, True), _Columns(some, False), _Columns(False, False)]
    for columns in choices:
        if all(len(columns.cell(best, ids).rstrip()) <= room for best in bests):
            return columns
    return choices[-1]


def _number(value: float) -> str:
    """Four cells, as .78, 1.00, 13.4 or 1234."""
    if value < 0.995:
        return f" {value:.2f}".replace("0.", ".")
    return (
        f"{value:4.2f}" if value < 9.995 else f"{value:4.1f}" if value < 99.95 else f"{value:4.0f}"
    )
