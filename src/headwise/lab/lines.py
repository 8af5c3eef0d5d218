"""Lines and bars of pictures from results: means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.lab.claim import Line
from headwise.lab.results import Case, Results, Setting
from headwise.lab.words import Words

__all__ = ["bars", "over"]


def over(results: Results, name: Words, quantity: str, setting: str, **fixed: Setting) -> Line:
    """A quantity against the values of a setting, which are numbers, of the cases with the fixed settings."""
    values = sorted(float(value) for value in results.settings(setting, **fixed))
    found = [results.mean(quantity, **fixed, **{setting: value}) for value in values]
    return Line.of(name, values, found)


def bars(results: Results, name: Words, quantity: str, cases: Sequence[Case]) -> Line:
    """A quantity of some cases, a bar for each, in their order."""
    return Line.of(name, range(len(cases)), [results.mean(quantity, **case) for case in cases])
