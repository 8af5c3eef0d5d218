"""From what a bench shows to an outcome: in words, with the place where it enters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.check.measuring.influence import Bench
from headwise.check.measuring.judging import Judgement, judge
from headwise.check.measuring.screening import blocks_of, screened
from headwise.check.places.locating import Entry
from headwise.check.places.seeking import Sought, place_of
from headwise.check.reading.given import COPIED
from headwise.check.running.plan import Plan, Way
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome
from headwise.names import ModelError

__all__ = ["examined", "skipped", "unknown"]

Benches = Callable[[Subject], Bench]


def skipped(dimension: str, says: str, case: str = "") -> Outcome:
    """It does not apply."""
    return Outcome(dimension, case, "skipped", says)


def unknown(dimension: str, says: str, case: str = "") -> Outcome:
    """It could not be told."""
    return Outcome(dimension, case, "unknown", says)


def examined(
    plan: Plan,
    benches: Benches,
    way: Way,
    dimension: str,
    case: str,
    *,
    forbidden: Bool[Tensor, "query key"],
    control: Bool[Tensor, "query key"],
    keys: Sequence[int],
    queries: Sequence[int],
    draws: int = 1,
    words: tuple[str, str] = ("position", "position"),
    opens: Int[Tensor, "query key"] | None = None,
    closely: bool = False,
) -> Outcome:
    """The outcome of a bench; in the model's own dtype where float64 does not tell.

    Args:
        plan: of the audit.
        benches: makes the bench of a subject.
        way: how it is run.
        dimension: of the outcome.
        case: of the outcome.
        forbidden: pairs that must have no influence.
        control: pairs that may, of which each edited key must move some.
        keys: which positions are edited.
        queries: of which outputs gradients are taken.
        draws: replacements each edit is tried with.
        words: what a query and a key are.
        opens: after how many layers a path from key to query is open, where windows add up.
        closely: measure pair by pair from the start; else only where a quick look does not show it clean.
    """
    why = "it was not run"
    for subject in (plan.subject, plan.coarse):
        if subject is None:
            continue
        bench = replace(benches(subject), fine=subject.fine)
        tried = [bench] if bench.copies == 1 else [bench, replace(bench, together=1)]
        for one in tried:  # a model that raises on many rows may read one
            try:
                found = None
                if not closely:
                    found = screened(one, blocks_of(forbidden, plan.blocks), control)
                if found is None:
                    found = judge(one, forbidden, control, keys=keys, queries=queries, draws=draws)
                    if not closely and _nothing(found, forbidden):  # what moved lies between them
                        every = range(forbidden.shape[1]), range(forbidden.shape[0])
                        found = judge(one, forbidden, control, keys=every[0], queries=every[1])
            except ModelError as error:
                why = str(error)
                continue
            except Exception as error:  # a model raises whatever it meets
                why = f"the model raised {type(error).__name__}: {_line(error)}"
                continue
            if found.told and not found.leak:
                return _clean(dimension, case, found, forbidden, keys)
            if found.told:
                numbers = (*range(draws), COPIED)
                sought = Sought(*found.pairs[0], forbidden, numbers, found.by, opens)
                place = place_of(one, subject, way, sought)
                return _leak(dimension, case, found, place, words)
            why = found.why
            break
    return unknown(dimension, why, case)


def _clean(
    dimension: str, case: str, found: Judgement, forbidden: Tensor, keys: Sequence[int]
) -> Outcome:
    measured = found.measured
    moved = 0.0 if measured is None else _most(measured, forbidden)
    says = "nothing moved"
    if moved > found.floor:
        says = f"at most {moved:.0e} moved, and by other rows of the batch or otherwise each time"
    elif moved > 0.0:
        says = f"at most {moved:.0e} moved, which is rounding"
    if len(keys) < forbidden.shape[1] and found.measured is not None:
        tried = int((~found.measured.isnan()).any(0).sum())
        says += (
            f"; {tried} of {forbidden.shape[1]} positions tried"
            if tried < forbidden.shape[1]
            else ""
        )
    return Outcome(
        dimension, case, "clean", says, moved, found.floor, found.smallest, measured=measured
    )


def _leak(
    dimension: str, case: str, found: Judgement, place: Entry | None, words: tuple[str, str]
) -> Outcome:
    query, key = found.pairs[0]
    seen, of = found.count
    more = f"; {seen} of the {of} forbidden pairs measured leak" if seen > 1 else ""
    how = "" if found.by == "edit" else ", told by gradients alone"
    says = (
        f"{words[0]} {query} sees {words[1]} {key}, {found.strength:.2g} of the largest allowed "
        f"influence{how}{more}"
    )
    return Outcome(
        dimension,
        case,
        "leak",
        says,
        found.strength,
        found.floor,
        found.smallest,
        None if place is None else place.module,
        "" if place is None else place.kind,
        found.pairs,
        measured=found.measured,
    )


def _nothing(found: Judgement, forbidden: Tensor) -> bool:
    """Whether no forbidden pair that was measured moved at all."""
    return found.told and found.measured is not None and _most(found.measured, forbidden) == 0.0


def _most(measured: Tensor, forbidden: Tensor) -> float:
    return float(measured.where(forbidden, 0.0).nan_to_num(0.0).max())


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "without a word"


def all_pairs(length: int, keys: int | None = None) -> Bool[Tensor, "query key"]:
    """Every pair."""
    return torch.ones(length, length if keys is None else keys, dtype=torch.bool)
