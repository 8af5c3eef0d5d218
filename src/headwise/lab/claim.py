"""What a claim is: what it says, what is measured, and how the numbers are judged and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from headwise.lab.bench import Bench
from headwise.lab.estimates import Estimate
from headwise.lab.results import Case, Results
from headwise.lab.words import Words

__all__ = ["Claim", "Finding", "Kind", "Line", "Panel", "Quantity", "Verdict"]

Kind = Literal["holds", "holds up to", "fails here", "not settled"]
"""`holds up to`: within a bound that the verdict names; `not settled`: this run's intervals are too wide."""


@dataclass(frozen=True)
class Quantity:
    """A number that each case gives.

    Attributes:
        name: in the rows.
        label: heading of its column, with the unit.
        digits: behind the point, in tables.
    """

    name: str
    label: Words
    digits: int = 3


@dataclass(frozen=True)
class Finding:
    """One figure that the verdict rests on; a second run with other seeds is held against it.

    Attributes:
        name: short and stable, for comparing runs.
        says: what the figure is, in a clause.
        value: the figure.
        holds: what the claim says of it; None = this run cannot tell.
        digits: behind the point.
    """

    name: str
    says: Words
    value: Estimate
    holds: bool | None
    digits: int = 3


@dataclass(frozen=True)
class Verdict:
    """Whether the claim holds on what was run here.

    Attributes:
        kind: of verdict.
        says: one sentence with the figures it rests on.
        findings: those figures.
    """

    kind: Kind
    says: Words
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, findings: Sequence[Finding], says: Words) -> Verdict:
        """`holds`, saying so, where every finding does; else it names those that do not, or are open."""
        against = [one.says for one in findings if one.holds is False]
        still = [one.says for one in findings if one.holds is None]
        if against:
            told = Words("Not as claimed: {en}.", "与论断不符:{zh}。").filled(**_listed(against))
            return cls("fails here", told, tuple(findings))
        if still:
            told = Words("Not settled by this run: {en}.", "这次运行无法判定:{zh}。")
            return cls("not settled", told.filled(**_listed(still)), tuple(findings))
        return cls("holds", says, tuple(findings))


def _listed(says: Sequence[Words]) -> dict[str, str]:
    return {"en": "; ".join(one.en for one in says), "zh": ";".join(one.zh for one in says)}


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a picture, with a band where ends are given; as bars where its panel has `ticks`."""

    name: Words
    x: Float[np.ndarray, " _"]
    y: Float[np.ndarray, " _"]
    low: Float[np.ndarray, " _"] | None = None
    high: Float[np.ndarray, " _"] | None = None

    @classmethod
    def of(cls, name: Words, x: Iterable[float], found: Sequence[Estimate]) -> Line:
        """The means of estimates; the band where all of them have intervals."""
        means, *ends = (
            np.array([getattr(one, end) for one in found]) for end in ("mean", "low", "high")
        )
        low, high = ends if all(one.known for one in found) else (None, None)
        return cls(name, np.array([float(place) for place in x]), means, low, high)


@dataclass(frozen=True, eq=False)
class Panel:
    """One plot of a claim's picture.

    Attributes:
        lines: drawn in it.
        xlabel, ylabel: with units.
        log_x, log_y: logarithmic axes.
        ticks: where x counts categories, the name of each.
        levels: lines across, by name.
    """

    lines: Sequence[Line]
    xlabel: Words
    ylabel: Words
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[Words] = ()
    levels: Sequence[tuple[Words, float]] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of the textbooks as an experiment.

    Attributes:
        name: of the command: `headwise lab NAME`.
        row: its number among the claims of the two articles: "C6".
        title: a few words.
        says: the claim, as the articles make it.
        formula: what it is about, as TeX without dollar signs; "" = none.
        asks: what is measured to answer it, in a sentence or two.
        cases: what is run: cases(quick).
        seeds: how many repeats: quick, full.
        measure: one case with one seed: measure(bench, case, seed) gives a number for each quantity.
        quantities: the columns of the table.
        judge: the verdict on all rows.
        panels: the picture.
        sources: papers, for the reader.
        facts: figures of the run for the lesson's text, by the name they have there.
        labels: how settings of the cases, and their values, are called in tables, where not as they are.
    """

    name: str
    row: str
    title: Words
    says: Words
    formula: str
    asks: Words
    cases: Callable[[bool], Sequence[Case]]
    seeds: tuple[int, int]
    measure: Callable[[Bench, Case, int], Mapping[str, float]]
    quantities: tuple[Quantity, ...]
    judge: Callable[[Results], Verdict]
    panels: Callable[[Results], Sequence[Panel]]
    sources: tuple[str, ...] = ()
    facts: Callable[[Results], Mapping[str, str]] = field(default=lambda results: {})
    labels: Mapping[str, Words] = field(default_factory=dict)
