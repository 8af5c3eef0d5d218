"""Do the rows of a batch see one another?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headwise.check.edits.outcomes import all_pairs, examined, skipped, unknown
from headwise.check.measuring.influence import Bench
from headwise.check.places.locating import Entry, entry
from headwise.check.places.tracing import Trace, trace
from headwise.check.reading.given import Given
from headwise.check.running.plan import Plan, Way, ways
from headwise.check.telling.report import Outcome
from headwise.names import HeadwiseError

__all__ = ["check_rows"]


_ROWS = 4


def check_rows(plan: Plan) -> Iterator[Outcome]:
    """A batch of four rows: edits in one must move nothing in the others, in eval and in train mode.

    And nothing that one call read may come into the next.
    """
    text, source = plan.given.text, plan.given.source
    others = plan.draws_from.draw(_ROWS - 1, plan.length, salt=5).to(text)
    given = Given(
        torch.cat([text, others]),
        source=None if source is None else source.repeat_interleave(_ROWS, 0),
    )
    try:
        plan.subject.run(given)
    except Exception as error:  # a function that reads one row alone
        yield skipped("rows", f"it does not take several rows: {type(error).__name__}")
        return
    for way in ways(plan.subject):
        if way in (Way(), Way(training=True)):
            yield _both(plan, given, way)
    if plan.subject.module is not None and plan.subject.fresh().own:
        yield _calls(plan)


def _both(plan: Plan, given: Given, way: Way) -> Outcome:
    """Edits in the last row, then in the first: a state that is carried on goes one way alone."""
    backwards = _in(plan, given, way, row=_ROWS - 1)
    return backwards if backwards.verdict != "clean" else _in(plan, given, way, row=0)


def _in(plan: Plan, given: Given, way: Way, row: int) -> Outcome:
    """Rows as if they were one: outputs are those of the other rows, then of the edited one, where all keys are."""
    length = plan.length
    looked = (*(r for r in range(_ROWS) if r != row), row)
    own = torch.arange(_ROWS * length) >= (_ROWS - 1) * length
    outcome = examined(
        plan,
        lambda subject: Bench(
            way.runs(subject), given, plan.draws_from, row=row, looked=looked, together=_ROWS
        ),
        way,
        "rows",
        way.title,
        forbidden=~own[:, None] & all_pairs(_ROWS * length, length),
        control=own[:, None] & plan.allowed.repeat(_ROWS, 1),
        keys=plan.few(plan.keys, 6 if way.training else 12),
        queries=plan.few(plan.queries, 4),
        words=("position", "another row's position"),
    )
    pairs = tuple((query % length, key) for query, key in outcome.pairs)
    says = outcome.says
    if pairs:
        says = says.replace(f"position {outcome.pairs[0][0]} ", f"position {pairs[0][0]} ", 1)
    return replace(outcome, says=says, pairs=pairs, allowed=None, measured=None)


def _calls(plan: Plan) -> Outcome:
    """The same input on one copy after another was read: what was read before must not come in."""
    before = [plan.two_rows(number).row(1) for number in (1, 2)]
    try:
        out = [_after(plan, read) for read in before]
    except Exception as error:  # a model raises whatever it meets
        return unknown("rows", f"a second call raised {type(error).__name__}", "calls")
    apart = (out[0] - out[1]).abs().amax(-1)[0]
    scale = float(out[0].abs().max())
    strength = float(apart.max()) / scale if scale > 0.0 else float(apart.max())
    least = 8 * plan.subject.fine
    if math.isnan(strength):
        return unknown("rows", "a second call gives NaN", "calls")
    if strength <= least:
        return Outcome("rows", "calls", "clean", "nothing moved", strength, 0.0, least)
    at = int(apart.argmax())
    says = (
        f"what one call read comes into the next: position {at} differs by {strength:.2g} of the output after "
        "another text"
    )
    place = _place(plan, before)
    module, kind = (None, "") if place is None else (place.module, place.kind)
    return Outcome(
        "rows", "calls", "leak", says, strength, 0.0, least, module, kind, pairs=((at, at),)
    )


def _after(plan: Plan, read: Given) -> Tensor:
    """What the input gives after another was read."""
    copy = plan.subject.fresh()
    copy.call(read)
    return copy.call(plan.given)


def _place(plan: Plan, before: list[Given]) -> Entry | None:
    """The first module that gives something else after another text was read."""
    try:
        one, other = (_trace_after(plan, read) for read in before)
        return entry(one, other, torch.ones(1, plan.length, dtype=torch.bool))
    except HeadwiseError:  # nothing inside has positions, or two sizes are alike
        return None


def _trace_after(plan: Plan, read: Given) -> Trace:
    copy = plan.subject.fresh()
    assert copy.module is not None
    copy.call(read)
    return trace(copy.module, lambda: copy.call(plan.given), plan.length)
