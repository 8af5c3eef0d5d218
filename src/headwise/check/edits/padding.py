"""Does what stands under padding reach real positions, on the left or on the right?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.measuring.influence import Bench
from headwise.check.reading.given import Given
from headwise.check.running.plan import Plan, Way, spread, ways
from headwise.check.telling.report import Outcome

__all__ = ["check_padding"]


def check_padding(plan: Plan) -> Iterator[Outcome]:
    """A batch of a full row and a padded one: edits under the padding must move nothing real.

    With padding given the mask must still hide what it hides without: edits of later tokens move nothing either.
    """
    if "padding" not in plan.subject.takes:
        yield skipped("padding", "it takes no padding mask")
        return
    for way in ways(plan.subject):
        if way == Way() or (way == Way(training=True) and not plan.subject.large):
            for side in plan.subject.signature.sides:
                yield _on(plan, side, way)


def _on(plan: Plan, side: str, way: Way) -> Outcome:
    length = plan.length
    pads = max(2, length // 4)
    hidden = (
        torch.arange(length) < pads if side == "left" else torch.arange(length) >= length - pads
    )
    rows = torch.stack([torch.ones_like(hidden), ~hidden])
    given = Given(
        torch.cat([plan.given.text, plan.draws_from.draw(1, length, salt=3).to(plan.given.text)]),
        rows,
        None,
        None if plan.given.source is None else plan.given.source.repeat_interleave(2, 0),
    )
    real = (~hidden)[:, None]
    forbidden = real & (hidden[None, :] | ~plan.allowed)
    under = tuple(hidden.nonzero().flatten().tolist())
    plainly = tuple((~hidden).nonzero().flatten().tolist())
    outcome = examined(
        plan,
        lambda subject: Bench(way.runs(subject), given, plan.draws_from, row=1),
        way,
        "padding",
        f"{side}, {way.title}" if way.title else side,
        forbidden=forbidden,
        control=real & ~hidden[None, :] & plan.allowed,
        keys=(*spread(under, 6), *spread(plainly, 6)),
        queries=spread(plainly, 6),
    )
    if outcome.bad and hidden[outcome.pairs[0][1]]:
        says = outcome.says.replace("sees position", "sees the padding at", 1)
        outcome = replace(outcome, says=says)
    return replace(outcome, allowed=plan.allowed & ~forbidden)
