"""Do the rows of a batch see one another?"""

from __future__ import annotations

from dataclasses import replace

import torch

from headwise.check.edits.outcomes import all_pairs, examined, skipped
from headwise.check.given import Given
from headwise.check.influence import Bench
from headwise.check.plan import Plan, Way, ways
from headwise.check.report import Outcome

__all__ = ["check_rows"]


def check_rows(plan: Plan) -> list[Outcome]:
    """A batch of two rows: edits in one must move nothing in the other, in eval and in train mode."""
    text, source = plan.given.text, plan.given.source
    other = plan.draws_from.draw(1, plan.length, salt=5).to(text)
    given = Given(
        torch.cat([text, other]),
        source=None if source is None else source.repeat_interleave(2, 0),
    )
    modes = [way for way in ways(plan.subject) if way in (Way(), Way(training=True))]
    try:
        out = plan.subject.run(given)
    except Exception as error:  # a function that reads one row alone
        return [skipped("rows", f"it does not take two rows: {type(error).__name__}")]
    assert out.shape[0] == 2
    return [_both(plan, given, way) for way in modes]


def _both(plan: Plan, given: Given, way: Way) -> Outcome:
    """Edits in the second row, then in the first: a state that is carried on goes one way alone."""
    backwards = _in(plan, given, way, row=1)
    return backwards if backwards.verdict != "clean" else _in(plan, given, way, row=0)


def _in(plan: Plan, given: Given, way: Way, row: int) -> Outcome:
    """Rows as if they were one: outputs are those of the other row, then of the edited one, where all keys are."""
    length = plan.length
    looked = (1 - row, row)
    first = torch.arange(2 * length) < length
    forbidden = first[:, None] & all_pairs(2 * length, length)
    outcome = examined(
        plan,
        lambda subject: Bench(
            way.runs(subject), given, plan.draws_from, row=row, looked=looked, together=2
        ),
        way,
        "rows",
        way.title,
        forbidden=forbidden,
        control=torch.cat([torch.zeros_like(plan.allowed), plan.allowed]),
        keys=plan.few(plan.keys, 6 if way.training else 12),
        queries=plan.few(plan.queries, 4),
        words=("position", "the other row's position"),
    )
    return replace(outcome, allowed=None, measured=None)
