"""From what figures say to the kind of a verdict."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.lab.claim import Finding, Kind

__all__ = ["kind_of"]


def kind_of(core: Iterable[Finding], further: Iterable[Finding] = ()) -> Kind:
    """The kind of verdict that figures come to.

    Args:
        core: what the claim stands or falls with: one that does not hold is a failure.
        further: what it also says: one that does not hold is a bound on it.
    """
    stands = [finding.holds for finding in core]
    if False in stands:
        return "fails here"
    also = [finding.holds for finding in further]
    if None in stands or (None in also and False not in also):
        return "not settled"
    return "holds up to" if False in also else "holds"
