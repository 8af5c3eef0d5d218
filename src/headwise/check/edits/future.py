"""Does an output see an input that the declared mask, over all layers, does not let it see?"""

from __future__ import annotations

from dataclasses import replace

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.influence import Bench
from headwise.check.plan import Plan, Way, ways
from headwise.check.report import Outcome

__all__ = ["check_future"]

_FEW = 5


def check_future(plan: Plan) -> list[Outcome]:
    """The plain way in full, then each other way of running on a few positions, then the windows of the config."""
    if bool(plan.allowed.all()):
        return [skipped("future", "every position may see every other")]
    found = [_in(plan, way) for way in ways(plan.subject)]
    if plan.narrow is not None:
        narrow = replace(plan, allowed=plan.narrow, opens=plan.narrow_opens)
        found.append(replace(_in(narrow, Way()), case="window"))
    return found


def _in(plan: Plan, way: Way) -> Outcome:
    plain = way == Way()
    keys = plan.keys if plain else plan.few(plan.keys, _FEW)
    queries = plan.queries if plain else plan.few(plan.queries, _FEW)
    outcome = examined(
        plan,
        lambda subject: Bench(way.runs(subject), plan.given, plan.draws_from),
        way,
        "future",
        way.title,
        forbidden=~plan.allowed,
        control=plan.allowed,
        keys=keys,
        queries=queries,
        draws=plan.draws if plain else 1,
        opens=plan.opens,
        closely=plain,
    )
    return replace(outcome, allowed=plan.allowed)
