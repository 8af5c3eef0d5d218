"""What can be read off a leak: who sees whom, by what pattern, in what kind of module, and which ways are clean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.check.telling.report import Outcome

__all__ = ["Facts"]

_NOTHING = 1e-6
"""Below this share of the strongest, an influence is what is left over, not part of the pattern."""

_EVEN = 0.05
"""How much the influences of one query vary, deviation over mean, where they are one mean over all."""

_NEARLY = 0.9
"""The share of pairs that are seen where all are: attention may leave some key next to nothing."""

_BATCH_NORMS = ("batchnorm",)
_MEMORIES = (
    "conv",
    "mamba",
    "ssm",
    "rwkv",
    "shift",
    "lstm",
    "gru",
    "rnn",
    "recurrent",
    "delta",
)
_POSITIONS = ("rotary", "position", "embed", "wpe", "alibi")
_RECURRENCES = ("LSTM", "GRU", "RNN")
_ASSUMED = "nothing says otherwise"
"""As `declared` has it in words."""
_ATTENTIONS = ("attn", "attention", "mha")


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a leak, or of two ways to run that part.

    Attributes:
        outcome: what was found.
        beside: the other outcomes of the audit.
        layers: how many layers follow one another; an excess of one in each adds up to so many.
        declared: the mask in words.
        wide_only: with the weights as they were given nothing was found.
    """

    outcome: Outcome
    beside: Sequence[Outcome] = ()
    layers: int = 1
    declared: str = ""
    wide_only: bool = False

    @property
    def dimension(self) -> str:
        """Of the outcome."""
        return self.outcome.dimension

    @property
    def case(self) -> str:
        """Of the outcome."""
        return self.outcome.case

    def clean(self, *cases: str, dimension: str | None = None) -> bool:
        """Whether one of these other cases was measured and is clean."""
        name = dimension or self.dimension
        return any(
            other.verdict == "clean" and other.dimension == name and other.case in cases
            for other in self.beside
        )

    @property
    def known(self) -> Bool[Tensor, "query key"]:
        """The forbidden pairs that were measured."""
        allowed, measured = self.outcome.allowed, self.outcome.measured
        if allowed is None or measured is None or allowed.shape != measured.shape:
            return torch.zeros(0, 0, dtype=torch.bool)
        return ~allowed.cpu() & ~measured.cpu().isnan()

    @property
    def seen(self) -> Bool[Tensor, "query key"]:
        """The forbidden pairs that have an influence."""
        known, measured = self.known, self.outcome.measured
        if measured is None or not known.numel():
            return known
        floor, strength = self.outcome.floor, self.outcome.strength
        least = max(floor if strength > floor else 0.0, _NOTHING * strength)  # gradients see below
        return known & (measured.cpu().nan_to_num(0.0) > least)

    @property
    def offsets(self) -> list[int]:
        """How far behind its query each key lies that is seen and must not be: 1 = the next position."""
        query, key = self.seen.nonzero().unbind(1)
        return [int(x) for x in (key - query).tolist()]

    @property
    def all_seen(self) -> bool:
        """Whether nearly every forbidden pair that was measured is seen, and there are several."""
        known = int(self.known.sum())
        return known > 1 and int(self.seen.sum()) >= _NEARLY * known

    @property
    def faint(self) -> bool:
        """Whether it is so weak that a finite number, not a missing mask, lets it through."""
        return 0.0 < self.outcome.strength < 1e-2

    @property
    def exponent(self) -> float:
        """x where the strength is exp(-x)."""
        return -math.log(self.outcome.strength)

    @property
    def next_only(self) -> bool:
        """Whether what is seen is the next position (in each layer), and it is seen wherever it was measured."""
        found = self.offsets
        if not found or min(found) < 1 or max(found) > self.layers:
            return False
        return _all_at(self.known, self.seen, 1)

    @property
    def too_far_back(self) -> int:
        """How far beyond the first allowed key what is seen goes, 0 where something later is seen."""
        allowed = self.outcome.allowed
        if allowed is None or not self.offsets or max(self.offsets) > 0:
            return 0
        first = allowed.cpu().to(torch.uint8).argmax(1)
        query, key = self.seen.nonzero().unbind(1)
        return int((first[query] - key).max())

    @property
    def block(self) -> int | None:
        """The length of the blocks within which all is seen, and beyond which nothing; None for no such blocks."""
        ahead = self.known.triu(1)
        seen = self.seen.triu(1)
        if not bool(seen.any()) or bool(self.seen.tril().any()):
            return None
        length = ahead.shape[0]
        at = torch.arange(ahead.shape[1])
        for size in range(2, length // 2 + 1):
            same = (at // size)[:length, None] == (at // size)[None]
            if torch.equal(ahead & same, seen) and bool((ahead & ~same).any()):
                return size
        return None

    @property
    def prefix(self) -> int | None:
        """How many first keys all queries see, where no later ones are seen; None for none such."""
        seen, known = self.seen, self.known
        if not bool(seen.any()):
            return None
        size = int(seen.any(0).nonzero().max()) + 1
        wide = torch.arange(seen.shape[1])[None] < size
        beyond = bool((known & ~wide).any())
        return size if beyond and torch.equal(seen, known & wide) else None

    @property
    def even(self) -> bool:
        """Whether every query is moved as much by each forbidden key as by any other, as by a mean."""
        measured = self.outcome.measured
        if measured is None or not self.all_seen:
            return False
        varies = [
            values.std(correction=0) / values.mean()
            for values, row in zip(measured.cpu().double(), self.known, strict=True)
            if int(row.sum()) > 2
            for values in [values[row]]
        ]
        return bool(varies) and float(torch.stack(varies).median()) < _EVEN

    @property
    def parts_late(self) -> bool:
        """For comparisons token by token: whether the steps right after the first agree."""
        places = [query for query, _ in self.outcome.pairs]
        return bool(places) and min(places) > 1

    @property
    def in_attention(self) -> bool:
        """Whether it enters in a module of attention."""
        return self._named(_ATTENTIONS)

    @property
    def in_batch_norm(self) -> bool:
        """Whether it enters in a norm over the batch."""
        return self._named(_BATCH_NORMS)

    @property
    def in_memory(self) -> bool:
        """Whether it enters in a convolution, a token shift or a recurrence."""
        return self._named(_MEMORIES) and not self.in_attention

    @property
    def in_recurrence(self) -> bool:
        """Whether it enters in a recurrence of torch, which can run both ways."""
        return self.outcome.kind in _RECURRENCES

    @property
    def assumed(self) -> bool:
        """Whether it was held against causal only because nothing says what it is."""
        return _ASSUMED in self.declared

    @property
    def in_positions(self) -> bool:
        """Whether it enters in a module of positions."""
        return self._named(_POSITIONS)

    @property
    def in_whole(self) -> bool:
        """Whether it enters in the code of the whole model, around its layers."""
        path = self.outcome.module
        return path is not None and not any(part.isdecimal() for part in path.split("."))

    def _named(self, words: Sequence[str]) -> bool:
        own = (self.outcome.module or "").rpartition(".")[2]
        text = f"{self.outcome.kind} {own}".lower()
        return any(word in text for word in words)


def _all_at(known: Tensor, seen: Tensor, offset: int) -> bool:
    """Whether all pairs so far ahead that were measured are seen, and there are several."""
    wanted = known.diagonal(offset)
    return int(wanted.sum()) > 1 and torch.equal(seen.diagonal(offset), wanted)
