"""From what figures say to a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headwise.lab.claim import Finding, Kind, Verdict
from headwise.lab.estimates import Estimate
from headwise.lab.words import Words

__all__ = ["above", "below", "both", "kind_of", "of_quick", "verdict"]

_OPEN = Words("This run cannot tell on every count", "这次运行不足以在每一点上作出判断")
_QUICK = Words(
    "This quick run is too small to settle what it speaks against. {en}",
    "这次快速运行的结果与论断不符,但规模太小,不足以判定。{zh}",
)


def above(
    name: str, en: str, zh: str, value: Estimate, bound: float = 0.0, digits: int = 3
) -> Finding:
    """A figure of which the claim says that it is above a bound.

    Args:
        name, en, zh, value, digits: as `Finding` takes them.
        bound: that its interval has to be above.
    """
    return Finding(name, Words(en, zh), value, value.above(bound), digits)


def below(
    name: str, en: str, zh: str, value: Estimate, bound: float = 0.0, digits: int = 3
) -> Finding:
    """A figure of which the claim says that it is below a bound; arguments as of `above`."""
    return Finding(name, Words(en, zh), value, value.below(bound), digits)


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
    up_to: Words | None = None,
    shown: int = 2,
) -> Verdict:
    """A verdict whose sentence gives the first figures of the core.

    Args:
        core, further: as `kind_of` takes them.
        holds, fails, up_to: a clause for each kind, without a full stop; up_to where there are further ones.
        shown: how many figures the sentence gives.
    """
    kind = kind_of(core, further)
    clauses = {"holds": holds, "fails here": fails, "holds up to": up_to or holds}
    clause = clauses.get(kind, _OPEN)
    figures = [(one.says, one.value.told(one.digits)) for one in core[:shown]]
    en = "; ".join(f"{says.en} {value}" for says, value in figures)
    zh = ";".join(f"{says.zh} {value}" for says, value in figures)
    return Verdict(kind, Words(f"{clause.en}: {en}.", f"{clause.zh}:{zh}。"), (*core, *further))


def both(one: bool | None, other: bool | None) -> bool | None:
    """Whether both hold: None where that cannot be told."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def of_quick(found: Verdict) -> Verdict:
    """What a verdict is worth in a quick run, whose trainings are too short and too few to fail a claim."""
    if found.kind != "fails here":
        return found
    says = _QUICK.filled(en=found.says.en, zh=found.says.zh)
    return replace(found, kind="not settled", says=says)
