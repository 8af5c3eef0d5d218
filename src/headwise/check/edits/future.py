"""Does an output see an input that the declared mask, over all layers, does not let it see?"""

from __future__ import annotations

from dataclasses import replace

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.edits.windows import check_windows
from headwise.check.influence import Bench
from headwise.check.plan import Plan, Way, ways
from headwise.check.report import Outcome

__all__ = ["check_future"]


def check_future(plan: Plan) -> list[Outcome]:
    """The plain way, each other way of running, then layer by layer the windows that the config names."""
    if bool(plan.allowed.all()):
        return [skipped("future", "every position may see every other")]
    found = [_in(plan, way) for way in ways(plan.subject)]
    return found + ([check_windows(plan)] if plan.windows else [])


def _in(plan: Plan, way: Way) -> Outcome:
    plain = way == Way()
    outcome = examined(
        plan,
        lambda subject: Bench(way.runs(subject), plan.given, plan.draws_from),
        way,
        "future",
        way.title,
        forbidden=~plan.allowed,
        control=plan.allowed,
        keys=plan.keys,
        queries=plan.queries,
        draws=plan.draws if plain else 1,
        opens=plan.opens,
        closely=plain,
    )
    return replace(outcome, allowed=plan.allowed)
