"""Does what stands under the padding of an encoder's text reach the decoder, through cross-attention?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from headwise.check.edits.outcomes import all_pairs, examined, skipped
from headwise.check.measuring.influence import Bench
from headwise.check.reading.given import Given
from headwise.check.running.plan import Plan, Way, spread
from headwise.check.telling.report import Outcome

__all__ = ["check_memory"]


def check_memory(plan: Plan) -> Iterable[Outcome]:
    """A batch of two sources, one padded: edits under its padding must move no output of the decoder."""
    if "source" not in plan.subject.takes:
        return [skipped("memory", "it has no encoder")]
    if "source_padding" not in plan.subject.takes:
        return [skipped("memory", "it takes no padding mask of what its encoder reads")]
    if plan.memory_from is None or plan.given.source is None:
        return [skipped("memory", "what its encoder reads cannot be drawn")]
    return [_on(plan, side) for side in ("left", "right")]


def _on(plan: Plan, side: str) -> Outcome:
    assert plan.given.source is not None
    assert plan.memory_from is not None
    source = plan.given.source
    keys = source.shape[1]
    pads = max(2, keys // 4)
    at = torch.arange(keys)
    hidden = at < pads if side == "left" else at >= keys - pads
    other = plan.memory_from.draw(1, keys, salt=9).to(source)
    given = Given(
        plan.given.text.repeat_interleave(2, 0),
        source=torch.cat([source, other]),
        source_real=torch.stack([torch.ones_like(hidden), ~hidden]),
    )
    pairs = all_pairs(plan.length, keys)
    under = tuple(hidden.nonzero().flatten().tolist())
    plainly = tuple((~hidden).nonzero().flatten().tolist())
    outcome = examined(
        plan,
        lambda subject: Bench(
            Way().runs(subject), given, plan.memory_from or plan.draws_from, row=1, of_source=True
        ),
        Way(),
        "memory",
        side,
        forbidden=pairs & hidden[None, :],
        control=pairs & ~hidden[None, :],
        keys=(*spread(under, 6), *spread(plainly, 3)),
        queries=plan.few(plan.queries, 4),
        words=("the decoder's position", "the encoder's padding at"),
    )
    return replace(outcome, allowed=pairs & ~hidden[None, :])
