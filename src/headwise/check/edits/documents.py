"""Do the documents of a packed row see one another?"""

from __future__ import annotations

from dataclasses import replace

import torch

from headwise.check.edits.outcomes import examined, skipped
from headwise.check.measuring.influence import Bench
from headwise.check.running.plan import Plan, Way
from headwise.check.telling.report import Outcome

__all__ = ["check_documents"]


def check_documents(plan: Plan) -> list[Outcome]:
    """A row of three documents: edits in one must move nothing in another."""
    takes = plan.subject.takes
    named = "documents" in takes
    if "source" in takes or not (
        named or ("positions" in takes and plan.subject.signature.foreign)
    ):
        return [skipped("documents", "it takes no documents of a packed row")]
    cuts = torch.tensor([plan.length // 3, plan.length - plan.length // 4])
    ids = torch.bucketize(torch.arange(plan.length), cuts, right=True)
    given = replace(plan.given, documents=ids[None])
    allowed = plan.allowed & (ids[:, None] == ids[None, :])
    outcome = examined(
        plan,
        lambda subject: Bench(Way().runs(subject), given, plan.draws_from),
        Way(),
        "documents",
        "",
        forbidden=~allowed,
        control=allowed,
        keys=plan.keys,
        queries=plan.queries,
    )
    ahead = any(not bool(plan.allowed[pair]) for pair in outcome.pairs)
    if outcome.bad and not named and not ahead:
        says = "it cannot be told of documents, and position ids alone do not keep them apart"
        return [skipped("documents", says)]
    return [replace(outcome, allowed=allowed)]
