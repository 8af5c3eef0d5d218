"""What a claim's cases gave, and how it is asked for: means over seeds, differences and ratios between cases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwise.lab.estimates import Estimate, estimate, ratio

__all__ = ["Case", "Key", "Results", "Row", "Setting", "key_of"]

Setting = str | int | float
Case = Mapping[str, Setting]
"""What one measurement is of: names and plain values, for instance {"heads": 8}."""
Key = tuple[tuple[tuple[str, Setting], ...], int]
"""By which a measurement is told from the others of a run: its case and its seed."""


def key_of(case: Case, seed: int) -> Key:
    """The key of the measurement of a case with a seed."""
    return tuple(case.items()), seed


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        case: what was measured.
        seed: of the weights, the order of the text and all else that is random.
        numbers: what it gave, by the names of quantities; NaN = none.
        seconds: it took.
    """

    case: Case
    seed: int
    numbers: Mapping[str, float]
    seconds: float = 0.0


class Results:
    """The rows of one claim's run.

    Args:
        rows: in any order; of one case and seed the last counts.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        kept = {key_of(row.case, row.seed): row for row in rows}
        self.rows = tuple(kept.values())

    def cases(self, **fixed: Setting) -> list[Case]:
        """The different cases that have these settings, in the order they were run."""
        found: dict[tuple[tuple[str, Setting], ...], Case] = {}
        for row in self._of(fixed):
            found.setdefault(tuple(row.case.items()), row.case)
        return list(found.values())

    def settings(self, name: str, **fixed: Setting) -> list[Setting]:
        """The different values of a setting, in the order they were run."""
        return list(dict.fromkeys(c[name] for c in self.cases(**fixed) if name in c))

    def values(self, quantity: str, **fixed: Setting) -> dict[int, float]:
        """What each seed gave for the case of these settings; their mean where several cases have them.

        Args:
            quantity: its name.
            fixed: settings that tell the case.
        """
        found: dict[int, list[float]] = {}
        for row in self._of(fixed):
            if quantity in row.numbers:
                found.setdefault(row.seed, []).append(row.numbers[quantity])
        return {seed: sum(found[seed]) / len(found[seed]) for seed in sorted(found)}

    def mean(self, quantity: str, **fixed: Setting) -> Estimate:
        """Over seeds, with its interval."""
        return estimate(list(self.values(quantity, **fixed).values()))

    def difference(self, quantity: str, one: Case, other: Case) -> Estimate:
        """One case less another, seed by seed: what both share of a seed's luck goes out."""
        pairs = self._pairs(quantity, one, other)
        return estimate([a - b for a, b in pairs])

    def ratio(self, quantity: str, one: Case, other: Case) -> Estimate:
        """One case over another, seed by seed; of quantities above 0."""
        pairs = self._pairs(quantity, one, other)
        if not pairs:
            return Estimate(math.nan, math.nan, math.nan, 0)
        return ratio([a for a, _ in pairs], [b for _, b in pairs])

    def _pairs(self, quantity: str, one: Case, other: Case) -> list[tuple[float, float]]:
        first, second = self.values(quantity, **one), self.values(quantity, **other)
        both = [(first[seed], second[seed]) for seed in first if seed in second]
        return [pair for pair in both if not any(map(math.isnan, pair))]

    def _of(self, fixed: Mapping[str, Setting]) -> Iterator[Row]:
        for row in self.rows:
            if all(row.case.get(name) == value for name, value in fixed.items()):
                yield row
