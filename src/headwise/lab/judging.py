"""From what figures say to a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwise.lab.claim import Finding, Kind, Verdict
from headwise.lab.words import Words

__all__ = ["both", "kind_of", "verdict"]

_OPEN = Words(
    "The intervals of this run are too wide to tell on every count",
    "这次运行的区间太宽,不足以在每一点上作出判断",
)


def kind_of(core: Iterable[Finding], further: Iterable[Finding] = ()) -> Kind:
    """The kind of verdict that figures come to.

    Args:
        core: what the claim stands or falls with: one that does not hold is a failure.
        further: what it also says: one that does not hold is a bound on it.
    """
    stands, also = [one.holds for one in core], [one.holds for one in further]
    if False in stands:
        return "fails here"
    if None in stands or not stands:
        return "not settled"
    if False in also:
        return "holds up to"
    return "not settled" if None in also else "holds"


def verdict(
    core: Sequence[Finding],
    further: Sequence[Finding] = (),
    *,
    holds: Words,
    fails: Words,
    up_to: Words = _OPEN,
    shown: int = 2,
) -> Verdict:
    """A verdict whose sentence gives the first figures of the core.

    Args:
        core, further: as `kind_of` takes them.
        holds, fails, up_to: a clause for each kind, without a full stop.
        shown: how many figures the sentence gives.
    """
    kind = kind_of(core, further)
    clause = {"holds": holds, "fails here": fails, "holds up to": up_to, "not settled": _OPEN}[kind]
    figures = [(one.says, one.value.told(one.digits)) for one in core[:shown]]
    en = "; ".join(f"{says.en} {value}" for says, value in figures)
    zh = ";".join(f"{says.zh} {value}" for says, value in figures)
    return Verdict(kind, Words(f"{clause.en}: {en}.", f"{clause.zh}:{zh}。"), (*core, *further))


def both(one: bool | None, other: bool | None) -> bool | None:
    """Whether both hold: None where that cannot be told."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
