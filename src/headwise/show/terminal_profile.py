"""A profile on a terminal: for each probe and statistic the heads that have most of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from headwise.see.profile.striking import Best, Ranking
from headwise.show.cells import fit, flow, print_lines

__all__ = ["profile_table"]

_GAP = 3
_PROBES = "mean attention to the key the probe names ± 95 % interval, and its hits:"
_OTHERS = (
    "most of: evenness (entropy / the most it can be), largest weight, distance in tokens, share of what "
    "the layer adds:"
)


def profile_table(rankings: Sequence[Ranking], *, width: int, colour: bool) -> RenderableType:
    """One line per probe and statistic: its name, and as many of its strongest heads as fit.

    Args:
        rankings: from `striking`.
        width: cells of a line.
        colour: whether the strongest may be shown in bold.
    """
    bests = [best for ranking in rankings for best in ranking.best]
    names = max((len(ranking.name) for ranking in rankings), default=0)
    ids = max((len(str(best.head)) for best in bests), default=0)
    texts = {id(best): _cell(best, ids) for best in bests}
    cell = max((len(text) for text in texts.values()), default=0)
    room = max(1, (width - names) // (cell + _GAP))
    lines: list[Text] = []
    for probe, says in ((True, _PROBES), (False, _OTHERS)):
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


def _cell(best: Best, ids: int) -> str:
    within = "" if math.isnan(best.within) else f"±{_number(best.within).strip()}"
    text = f"{best.head!s:<{ids}} {_number(best.value)} {within:<4}"
    return text if best.hits is None else f"{text} {best.hits:>4.0%}"


def _number(value: float) -> str:
    """Four cells, as .78, 1.00, 13.4 or 1234."""
    if value < 0.995:
        return f" {value:.2f}".replace("0.", ".")
    return (
        f"{value:4.2f}" if value < 9.995 else f"{value:4.1f}" if value < 99.95 else f"{value:4.0f}"
    )
