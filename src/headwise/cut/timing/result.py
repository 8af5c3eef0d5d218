"""What a timing found: for each case the spread of each model's time and of their ratio, with memory beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from headwise.cut.timing.spread import Spread

__all__ = ["NOTHING", "Case", "Phase", "Timed", "Timing"]

Phase = Literal["prefill", "decode", "forward"]

NOTHING = 0.02
"""A ratio nearer to 1 is no gain: where the weights lie in memory alone shifts it by so much."""


@dataclass(frozen=True)
class Timed:
    """A model that was timed: its parameters, and the bytes of all its weights and buffers."""

    name: str
    parameters: int
    weight_bytes: int


@dataclass(frozen=True)
class Case:
    """One phase at one batch and length.

    Attributes:
        phase: "prefill", the pass over a prompt that fills the cache and gives the next token's logits; "decode",
            one token more; "forward", the whole pass of a model that has no cache.
        batch: rows.
        length: tokens of each row that are read (prefill, forward) or lie in the cache (decode); None where a
            model reads no text.
        a: seconds for the pass, or for one step of decoding.
        b: the same of the second model.
        ratio: b's time / a's in the same round.
        cache_bytes: of keys and values after that many tokens, of the first model and the second; None = no cache.
    """

    phase: Phase
    batch: int
    length: int | None
    a: Spread
    b: Spread | None = None
    ratio: Spread | None = None
    cache_bytes: tuple[int | None, ...] = ()

    @property
    def gain(self) -> Literal["faster", "slower", "none"] | None:
        """Whether the second model is faster: the whole interval must say so, and by 2 % or more."""
        if self.ratio is None:
            return None
        if self.ratio.high < 1 and self.ratio.median <= 1 - NOTHING:
            return "faster"
        if self.ratio.low > 1 and self.ratio.median >= 1 + NOTHING:
            return "slower"
        return "none"

    @property
    def verdict(self) -> str:
        """The gain in words, for instance `no gain: 0.99 [0.97, 1.02]`; "" of one model alone."""
        words = {"faster": "", "slower": "slower: ", "none": "no gain: ", None: ""}
        return f"{words[self.gain]}{self.ratio or ''}"


@dataclass(frozen=True)
class Timing:
    """One or two models timed.

    Attributes:
        a: the first model.
        b: the second; None where one was timed alone.
        cases: in the order they were asked for.
        rounds: how often each was measured.
        device: where they ran.
        threads: with how many threads of the CPU.
        clock: "cpu", seconds that the process computed (with one thread), or "wall".
        dtype: of the first model's weights.
    """

    a: Timed
    b: Timed | None
    cases: tuple[Case, ...]
    rounds: int
    device: str
    threads: int
    clock: str
    dtype: str

    def case(self, phase: Phase, batch: int = 1, length: int | None = None) -> Case | None:
        """The case of this phase, batch and length (None = the first there is)."""
        for case in self.cases:
            if (case.phase, case.batch) == (phase, batch) and length in (None, case.length):
                return case
        return None

    def as_dict(self) -> Mapping[str, Any]:
        """All of it as plain data, the verdicts too."""
        plain = asdict(self)
        for told, case in zip(plain["cases"], self.cases, strict=True):
            told |= {"gain": case.gain, "verdict": case.verdict}
            told["cache_bytes"] = list(told["cache_bytes"])
        plain["cases"] = list(plain["cases"])
        return plain
