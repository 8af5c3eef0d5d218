"""What a leak looks like: the common cause that fits what was measured, in one sentence, or nothing.

Causes are rules in a table, the more particular ones first; the first that fits speaks. Each is told from the
pattern (who sees whom that must not), from the module in which it enters, and from which other ways to run are
clean. Never more than a likeness: two causes can leave the same pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headwise.check.telling.report import Outcome
from headwise.check.telling.signs import Facts

__all__ = ["RULES", "Rule", "advise", "advised", "cause"]


@dataclass(frozen=True)
class Rule:
    """A cause.

    Attributes:
        name: in a word or two.
        dimensions: where it occurs.
        fits: whether the facts look like it.
        says: what it looks like, and what to look for; or how that is made from the facts.
    """

    name: str
    dimensions: tuple[str, ...]
    fits: Callable[[Facts], bool]
    says: str | Callable[[Facts], str]


def advise(facts: Facts) -> str:
    """The common cause that these facts look like, in one sentence; "" where none fits."""
    rule = _rule_of(facts)
    if rule is None:
        return ""
    said = f"looks like {rule.says if isinstance(rule.says, str) else rule.says(facts)}"
    if facts.assumed and facts.all_seen and (facts.dimension, facts.case) == ("future", ""):
        return f"{said}; if it reads both ways on purpose, declare masks.full()"
    return said


def cause(facts: Facts) -> str:
    """The name of the rule that speaks; "" where none does."""
    rule = _rule_of(facts)
    return "" if rule is None else rule.name


def advised(
    outcomes: Sequence[Outcome], *, layers: int = 1, declared: str = "", wide_only: bool = False
) -> tuple[Outcome, ...]:
    """The outcomes of an audit, each leak and each difference with what it looks like.

    Args:
        outcomes: all of one audit: a leak is also told by what is clean beside it.
        layers: how many layers follow one another.
        declared: the mask in words.
        wide_only: whether an audit with the weights as they were given found nothing.
    """
    return tuple(
        replace(outcome, advice=advise(Facts(outcome, outcomes, layers, declared, wide_only)))
        if outcome.bad
        else outcome
        for outcome in outcomes
    )


def _rule_of(facts: Facts) -> Rule | None:
    found = (rule for rule in RULES if facts.dimension in rule.dimensions and rule.fits(facts))
    return next(found, None)


_FUTURE = ("future",)
_EDITS = ("future", "padding", "documents", "memory")
_CACHES = ("cached", "chunked")

RULES: tuple[Rule, ...] = (
    Rule(
        "mask outrun by wide weights",
        _EDITS,
        lambda f: f.wide_only and (f.in_attention or f.outcome.module is None),
        "a finite mask value that large scores outrun: nothing is seen with the weights as they are; fill with "
        "-inf, or with torch.finfo(dtype).min instead of a number such as -1e4",
    ),
    Rule(
        "finite mask",
        _EDITS,
        lambda f: f.faint and f.all_seen and (f.in_attention or f.outcome.module is None),
        lambda f: (
            "a finite mask value too small to hide: what must not be seen keeps a share of about "
            f"exp(-{f.exponent:.0f}); fill with -inf"
        ),
    ),
    Rule(
        "mask dropped with weights",
        _EDITS,
        lambda f: "with weights" in f.case and f.clean(""),
        "a mask that is dropped when weights are asked for: the same input is clean without them",
    ),
    Rule(
        "mask skipped for is_causal",
        _EDITS,
        lambda f: (f.case == "" and f.clean("eager")) or (f.case == "sdpa" and f.clean("")),
        "a mask that one implementation alone goes without: no mask was made because is_causal was to stand for "
        "it, and is_causal did not arrive",
    ),
    Rule(
        "mask missing in eager attention",
        _EDITS,
        lambda f: (f.case == "" and f.clean("sdpa")) or (f.case == "eager" and f.clean("")),
        "a mask that eager attention is not given: without one it hides nothing, where the fused kernel is told "
        "is_causal",
    ),
    Rule(
        "batch statistics",
        ("future", "rows", "padding", "documents", "training"),
        lambda f: f.in_batch_norm,
        "batch statistics: batch norm in train mode takes means over rows and positions; use a norm over channels",
    ),
    Rule(
        "only in training",
        ("future", "rows"),
        lambda f: "train" in f.case and f.clean(""),
        "something that is done in train mode alone, as statistics over the batch or routing by capacity are: eval "
        "mode is clean",
    ),
    Rule(
        "rows mixed",
        ("rows",),
        lambda f: True,
        "rows and positions taken for one another: a module told [position, batch, ...] that is given "
        "[batch, position, ...], or a view that folds rows into positions",
    ),
    Rule(
        "memory across documents",
        ("documents",),
        lambda f: f.in_memory or (bool(f.offsets) and min(f.offsets) >= -4 and not f.in_attention),
        "a convolution, token shift or recurrence that runs on across the borders of documents: its state must "
        "start anew with each",
    ),
    Rule(
        "positions restart but the mask does not",
        ("documents",),
        lambda f: f.in_attention or f.outcome.module is None or f.all_seen,
        "position ids that restart at each document while the mask does not: the attention mask must keep "
        "documents apart too",
    ),
    Rule(
        "prefix shows padding",
        ("padding", "memory"),
        lambda f: "prefix" in f.declared or (f.prefix is not None and not f.all_seen),
        "a prefix that is or-ed in after the padding and shows it again: hide padding last, "
        "(causal | prefix) & padding",
    ),
    Rule(
        "memory over padding",
        ("padding",),
        lambda f: f.in_memory,
        "a convolution or recurrence that reads padding as text: its input there must be zeroed and its state "
        "kept",
    ),
    Rule(
        "padding in a mean",
        ("padding",),
        lambda f: not f.in_attention and f.even,
        "a mean or norm over time that counts padding in",
    ),
    Rule(
        "padding mask as 0 and 1",
        ("padding",),
        lambda f: f.all_seen and (f.in_attention or f.outcome.module is None),
        "a padding mask that does not arrive, or is added to the scores as 0 and 1 instead of -inf and 0, which "
        "hides nothing",
    ),
    Rule(
        "padding of the encoder's own",
        ("memory",),
        lambda f: "encoder" in (f.outcome.module or "").split("."),
        "an encoder whose own attention is not given the padding mask",
    ),
    Rule(
        "mask dropped in cross-attention",
        ("memory",),
        lambda f: True,
        "a padding mask of the source that the encoder is given and cross-attention is not",
    ),
    Rule(
        "recurrence both ways",
        _FUTURE,
        lambda f: f.in_recurrence and bool(f.offsets) and max(f.offsets) > 0,
        "a recurrence that runs both ways: bidirectional=False",
    ),
    Rule(
        "padding on both sides",
        _FUTURE,
        lambda f: f.in_memory and bool(f.offsets) and max(f.offsets) > 0 and not f.all_seen,
        "a convolution over time that is padded on both sides, or cut at the wrong end: pad kernel - 1 on the left "
        "alone, or keep the first positions of what comes out",
    ),
    Rule(
        "shifted the wrong way",
        _FUTURE,
        lambda f: f.next_only and not f.in_attention and max(f.offsets) == 1,
        "a shift by one in the wrong direction, or labels shifted twice: each position has what belongs to the "
        "next one",
    ),
    Rule(
        "diagonal off by one",
        _FUTURE,
        lambda f: f.next_only,
        "a causal mask whose diagonal is off by one: each query sees the one position after it in each layer; hide "
        "from triu(diagonal=1) on, and align queries with keys at the end (outside attention, a shift by one the "
        "wrong way)",
    ),
    Rule(
        "window one too wide",
        _FUTURE,
        lambda f: 0 < f.too_far_back <= f.layers,
        "a window off by one: it counts n keys before the query, where n with the query itself are meant "
        "(q - k < n, not <=)",
    ),
    Rule(
        "window not applied",
        _FUTURE,
        lambda f: f.too_far_back > 0,
        "a window that is not applied, or not in every layer it is declared for: keys far before it are seen",
    ),
    Rule(
        "prefix",
        _FUTURE,
        lambda f: f.prefix is not None and not f.all_seen and f.prefix > 1,
        lambda f: (
            f"a prefix of at least {f.prefix} positions that all queries see, or a mask made for a shorter text"
        ),
    ),
    Rule(
        "blocks",
        _FUTURE,
        lambda f: f.block is not None,
        lambda f: (
            f"chunks of {f.block} positions within which all see one another: the causal order is kept between "
            "chunks and not inside them"
        ),
    ),
    Rule(
        "mean over time",
        _FUTURE,
        lambda f: f.even and not f.in_attention,
        "a mean or norm over time: all later positions weigh the same",
    ),
    Rule(
        "no causal mask",
        _FUTURE,
        lambda f: f.all_seen and (f.in_attention or f.outcome.module is None),
        "attention without any causal mask: every later position is seen",
    ),
    Rule(
        "all of time",
        _FUTURE,
        lambda f: f.all_seen,
        "something taken over all positions at once (a mean, a norm, a transform, routing by rank): every later "
        "position is seen",
    ),
    Rule(
        "pieces start anew",
        ("chunked",),
        lambda f: f.in_memory and f.clean("", dimension="cached"),
        "a scan or convolution over a piece of several tokens that starts from an empty state: token by token the "
        "state of the cache is carried on",
    ),
    Rule(
        "memory not carried",
        _CACHES,
        lambda f: f.in_memory,
        "a convolution or recurrence whose state is not carried on from piece to piece",
    ),
    Rule(
        "positions of the cache",
        _CACHES,
        lambda f: f.in_positions or f.in_whole,
        "positions off by one, or counted from 0 in each piece: the first new one has as many before it as the "
        "cache holds",
    ),
    Rule(
        "mask of a piece",
        ("chunked",),
        lambda f: f.in_attention and f.clean("", dimension="cached"),
        "a mask of a piece that is aligned at the first key: its last query belongs at the last key, and token by "
        "token that cannot be told",
    ),
    Rule(
        "rolling cache",
        ("cached",),
        lambda f: f.case == "" and f.in_attention and f.parts_late,
        "a rolling cache whose window is off by one: the first steps agree, and those do not for which it lets go "
        "of a key",
    ),
    Rule(
        "keys of the cache",
        _CACHES,
        lambda f: f.in_attention,
        "keys and values of earlier pieces that are lost, written over or put in twice",
    ),
    Rule(
        "positions count padding",
        ("unpadded",),
        lambda f: f.in_positions or f.in_whole,
        "positions that are counted from the padding on instead of from the first real token",
    ),
    Rule(
        "padding comes in",
        ("unpadded",),
        lambda f: f.in_attention or f.in_memory,
        "padding that is read as text here",
    ),
    Rule(
        "mask differs with weights",
        ("weights",),
        lambda f: f.in_attention,
        "a mask, scale or bias that one of both ways to attend is not given",
    ),
    Rule(
        "dropout in eval",
        ("training",),
        lambda f: True,
        "something that depends on self.training beside dropout: a mask, a scale, or noise in the routing",
    ),
)
"""The causes, the more particular ones first."""
