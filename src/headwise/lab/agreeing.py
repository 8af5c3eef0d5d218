"""Two runs of the same claim with other seeds: whether they come to the same verdict and figures."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.lab.claim import Finding
from headwise.lab.running import Run

__all__ = ["Agreement", "agreement"]


@dataclass(frozen=True)
class Agreement:
    """What came of holding one run against another.

    Attributes:
        same_verdict: whether both come to the same kind of verdict.
        pairs: each figure of the verdict in both runs.
        differing: the names of those whose intervals do not meet.
    """

    same_verdict: bool
    pairs: tuple[tuple[Finding, Finding], ...]
    differing: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Same verdict, and all intervals meet."""
        return self.same_verdict and not self.differing


def agreement(one: Run, other: Run) -> Agreement:
    """Hold a run against another of the same claim."""
    first, second = one.verdict(), other.verdict()
    theirs = {finding.name: finding for finding in second.findings}
    pairs = tuple((mine, theirs[mine.name]) for mine in first.findings if mine.name in theirs)
    missing = {mine.name for mine in first.findings} ^ set(theirs)
    differing = [a.name for a, b in pairs if not a.value.overlaps(b.value)]
    return Agreement(first.kind == second.kind, pairs, (*differing, *sorted(missing)))
