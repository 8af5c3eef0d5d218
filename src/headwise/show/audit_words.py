"""An audit in words: what it comes to, what was declared and how it ran, how strong a leak is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headwise.check.telling.report import Audit, Outcome
from headwise.check.telling.stopped import Stopped
from headwise.show.labels import one_line

__all__ = ["conclusion", "facts_of", "number", "strength_of"]

_BY_WAYS = {"future", "rows"}
"""Dimensions whose cases are ways to run."""


def conclusion(audit: Audit) -> str:
    """What an audit comes to: `clean`, `1 leak, in 2 ways to run; 1 inconsistency`, `1 could not be told`.

    What is seen in several cases of one dimension counts once.
    """
    told = [
        _counted([o for o in audit.leaks if o.verdict == verdict], *words)
        for verdict, words in (
            ("leak", ("leak", "leaks")),
            ("differs", ("inconsistency", "inconsistencies")),
        )
    ]
    told += [f"{len(audit.unknown)} could not be told"] if audit.unknown else []
    said = "; ".join(filter(None, told))
    if isinstance(audit, Stopped):
        return f"stopped; {f'{said}, so far' if said else 'nothing bad so far'}"
    return said or ("clean" if audit.clean else "nothing was checked")


def _counted(outcomes: Sequence[Outcome], one: str, many: str) -> str:
    """How many dimensions, and in how many cases; "" for none."""
    if not outcomes:
        return ""
    found = {outcome.dimension for outcome in outcomes}
    said = f"{len(found)} {one if len(found) == 1 else many}"
    if len(outcomes) == len(found):
        return said
    what = "ways to run" if found <= _BY_WAYS else "cases"
    return f"{said}, in {len(outcomes)} {what}"


def facts_of(audit: Audit) -> str:
    """What was declared and how it ran, without what is not known."""
    count = audit.layers
    layers = "" if count is None else f" over {count} layer{'' if count == 1 else 's'}"
    declared = f"declared: {one_line(audit.declared)}{layers}; " if audit.declared else ""
    length = f"{audit.length} positions" if audit.length else ""
    how = [length, audit.dtype, f"weights {audit.weights}", f"seed {audit.seed}"]
    return declared + ", ".join(filter(None, how))


def number(value: float) -> str:
    """As 0, 0.021 or 3.1e-13; "" where there is none."""
    return f"{value:.2g}" if math.isfinite(value) else ""


def strength_of(outcome: Outcome) -> str:
    """How strong it is, what rounding moves, and the smallest that would have been seen."""
    said = f"strength {number(outcome.strength)}; rounding alone moves {number(outcome.floor)}"
    if not math.isfinite(outcome.smallest):
        return said
    said += f"; the smallest that would have been seen: {number(outcome.smallest)}"
    if outcome.smallest >= outcome.floor:
        return said
    return f"{said}, as a leak comes again alike where rounding does not"
