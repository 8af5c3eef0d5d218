"""Does what stands under padding reach real positions, on the left or on the right?"""

from __future__ import annotations

from dataclasses import replace

import torch

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.given import Given
from headwise.check.influence import Bench
from headwise.check.plan import Plan, Way, spread
from headwise.check.report import Outcome

__all__ = ["check_padding"]


def check_padding(plan: Plan) -> list[Outcome]:
    """A batch of a full row and a padded one: edits under the padding must move nothing real."""
    if "padding" not in plan.subject.takes:
        return [skipped("padding", "it takes no padding mask")]
    return [_on(plan, side) for side in plan.subject.signature.sides]


def _on(plan: Plan, side: str) -> Outcome:
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
    forbidden = real & hidden[None, :]
    under = tuple(hidden.nonzero().flatten().tolist())
    plainly = tuple((~hidden).nonzero().flatten().tolist())
    outcome = examined(
        plan,
        lambda subject: Bench(Way().runs(subject), given, plan.draws_from, row=1),
        Way(),
        "padding",
        side,
        forbidden=forbidden,
        control=real & ~hidden[None, :] & plan.allowed,
        keys=(*spread(under, 6), *spread(plainly[:-1], 2)),
        queries=spread(plainly, 6),
        words=("position", "the padding at"),
    )
    return replace(outcome, allowed=plan.allowed & ~forbidden)
