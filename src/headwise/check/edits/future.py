"""Does an output see an input that the declared mask, over all layers, does not let it see?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.edits.windows import check_windows
from headwise.check.measuring.influence import Bench
from headwise.check.running.plan import Plan, Way, ways
from headwise.check.telling.report import Outcome

__all__ = ["check_future"]


def check_future(plan: Plan) -> Iterator[Outcome]:
    """The plain way, each other way of running, another length, its own dtype, and layer by layer the windows."""
    if bool(plan.allowed.all()):
        yield skipped("future", "every position may see every other")
        return
    for way in ways(plan.subject):
        yield _in(plan, way)
    if plan.coarse is not None and plan.coarse.dtype != plan.subject.dtype:
        own = replace(plan, subject=plan.coarse, coarse=None)
        yield _in(own, Way(), case=str(own.subject.dtype).removeprefix("torch."))
    if plan.longer is not None:
        yield _in(plan.longer, Way(), case=f"{plan.longer.length} positions")
    if plan.windows:
        yield check_windows(plan)


def _in(plan: Plan, way: Way, case: str = "") -> Outcome:
    """The plain way pair by pair, in a batch, and then on one row alone; the others quickly first."""
    plain = way == Way() and not case
    outcome = _measured(plan, way, case or way.title, closely=plain)
    if plain and outcome.verdict == "clean":
        alone = _measured(plan, way, case, closely=False, together=1)
        outcome = alone if alone.verdict != "clean" else outcome
    return replace(outcome, allowed=plan.allowed)


def _measured(plan: Plan, way: Way, case: str, *, closely: bool, together: int = 24) -> Outcome:
    return examined(
        plan,
        lambda subject: Bench(way.runs(subject), plan.given, plan.draws_from, together=together),
        way,
        "future",
        case,
        forbidden=~plan.allowed,
        control=plan.allowed,
        keys=plan.keys,
        queries=plan.queries,
        draws=plan.draws if closely else 1,
        opens=plan.opens,
        closely=closely,
    )
