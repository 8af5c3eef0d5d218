"""The tables of the lab as cells: what a run measured, how its verdicts stand, two runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.lab.agreeing import Agreement
from headwise.lab.claim import Claim
from headwise.lab.estimates import Estimate
from headwise.lab.results import Setting
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.show.lab.wording import SAYS, kind_told

__all__ = ["Table", "compared_table", "results_table", "verdict_cell", "verdicts_table"]

_NONE = "-"


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings; the first `left` columns are words, the others numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int


def results_table(run: Run, language: Language) -> Table:
    """A row for each case: its settings, the mean of each quantity with its interval, and the number of seeds."""
    claim, results = run.claim, run.results
    cases = results.cases()
    settings = list(dict.fromkeys(name for case in cases for name in case))
    rows = []
    for case in cases:
        means = [results.mean(quantity.name, **case) for quantity in claim.quantities]
        cells = [_setting(claim, case.get(name), language) for name in settings]
        cells += [
            _told(mean, quantity.digits)
            for mean, quantity in zip(means, claim.quantities, strict=True)
        ]
        rows.append((*cells, str(max((mean.count for mean in means), default=0))))
    headings = [_setting(claim, name, language) for name in settings]
    headings += [quantity.label.of(language) for quantity in claim.quantities]
    return Table((*headings, SAYS["seeds"].of(language)), tuple(rows), len(settings))


def verdicts_table(
    claims: Sequence[Claim],
    runs: Mapping[str, Run],
    language: Language,
    *,
    second: Mapping[str, Agreement] | None = None,
    links: Mapping[str, str] | None = None,
) -> Table:
    """A row for each claim: its row, its name, what it says, and its verdict where it was run.

    Args:
        claims: in their order.
        runs: by the name of the claim; where there are none, there is no column of verdicts.
        language: of the cells.
        second: whether a second run agrees, by the name of the claim.
        links: where the name of a claim leads, for the claims that have a report.
    """
    rows = []
    for claim in claims:
        run = runs.get(claim.name)
        link = (links or {}).get(claim.name)
        name = f"[{claim.name}]({link})" if link else claim.name
        cells = [claim.row, name, claim.title.of(language)]
        if runs:
            cells.append(verdict_cell(run, language))
        if second is not None:
            cells.append(_agrees(second.get(claim.name), language))
        rows.append(tuple(cells))
    heads = ["", SAYS["claim"].of(language), ""]
    heads += [SAYS["verdict"].of(language)] if runs else []
    heads += [SAYS["second"].of(language)] if second is not None else []
    return Table(tuple(heads), tuple(rows), len(heads))


def verdict_cell(run: Run | None, language: Language) -> str:
    """How a claim stands."""
    if run is None:
        return SAYS["not run"].of(language)
    if not run.whole:
        return SAYS["unfinished"].of(language)
    return kind_told(run.verdict().kind, language)


def compared_table(found: Agreement, folders: tuple[Path, Path], language: Language) -> Table:
    """A row for each figure of both verdicts, and whether their intervals meet."""
    rows = []
    for one, other in found.pairs:
        meets = one.name not in found.differing
        cells = [one.name, one.value.told(one.digits), other.value.told(other.digits)]
        rows.append((*cells, _meets(meets, language)))
    heads = (SAYS["figures"].of(language), *(str(folder) for folder in folders), "")
    return Table(heads, tuple(rows), 1)


def _meets(yes: bool, language: Language) -> str:
    if language == "en":
        return "agrees" if yes else "differs"
    return "一致" if yes else "不同"


def _agrees(found: Agreement | None, language: Language) -> str:
    return SAYS["not run"].of(language) if found is None else _meets(found.agree, language)


def _setting(claim: Claim, value: Setting | None, language: Language) -> str:
    if value is None:
        return _NONE
    words = claim.labels.get(str(value))
    return str(value) if words is None else words.of(language)


def _told(value: Estimate, digits: int) -> str:
    """With its interval, but where all seeds gave the same."""
    if math.isnan(value.mean):
        return _NONE
    same = value.low == value.mean == value.high
    return (Estimate(value.mean, math.nan, math.nan, 1) if same else value).told(digits)
