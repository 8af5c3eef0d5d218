"""Whether two ways to run agree: their difference against rounding, and against what the input moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.comparing.sides import Locate, Sides
from headwise.check.measuring.noise import Noise
from headwise.check.telling.report import Outcome

__all__ = ["Asking", "Pair", "compared", "first_line", "gap"]

Where = Bool[Tensor, "batch position"]
Output = Float[Tensor, "batch position channel"]

_COARSE = 0.1
"""Where rounding moves more than so much of what the input moves, nothing is told."""

_SINGLE = 16 * torch.finfo(torch.float32).eps
"""Constants that were made in float32 (decays, slopes) differ by its rounding from those made again in float64."""

_PAIRS = 12
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Pair:
    """What two ways to run gave for one input.

    Attributes:
        salt: the number of the input.
        one: the output as a rule.
        other: the output otherwise.
        at: where they must agree.
        moves: how far another input moves the output there.
        noise: of this input.
        still: why the comparison shows nothing, "" where it does.
    """

    salt: int
    one: Output
    other: Output
    at: Where
    moves: float
    noise: Noise
    still: str = ""

    @property
    def gaps(self) -> Float[Tensor, "batch position"]:
        """How far they are apart where they must agree, 0 elsewhere."""
        return gap(self.one, self.other).where(self.at, 0.0)

    @property
    def largest(self) -> float:
        """The largest of the gaps."""
        return float(self.gaps.max()) if self.gaps.numel() else 0.0

    @property
    def sure(self) -> float:
        """From here on a difference is no rounding, not even of a constant."""
        louder = max(self.noise.scale, self.noise.jittered / self.noise.eps)
        return max(self.noise.sure, _SINGLE * louder, _TINY)

    @property
    def apart(self) -> bool:
        """Whether they differ by more than rounding."""
        return self.largest >= self.sure

    @property
    def tolerance(self) -> float:
        """Difference that is rounding, relative to the output."""
        return self.sure / max(self.noise.scale, _TINY)

    @property
    def why_not(self) -> str:
        """Why nothing can be told from it, "" where it can."""
        for which, x in (("", self.one), (" in the other way to run", self.other)):
            if not bool(x[self.at].isfinite().all()):
                return f"the output holds NaN or infinity{which}"
        if not math.isfinite(self.sure):
            return "rounding makes the output NaN or infinite"
        if self.apart or (self.largest == 0.0 and self.moves > 0.0 and not self.still):
            return ""
        if self.still:
            return self.still
        if self.moves <= self.sure:
            return "the output does not depend on the input, so it would show no difference"
        if self.sure > _COARSE * self.moves:
            part = self.noise.floor / self.moves
            return f"rounding alone moves the output by {part:.1e} of what the input moves"
        return ""


@dataclass(frozen=True)
class Asking:
    """What is asked of a pair that differs; each may be left out.

    Attributes:
        locate: names the module in which both ways part.
        sides: both ways again, for `locate`.
        hint: what more is to be said.
        brief: one text is enough where both ways agree on it: the model is large.
    """

    locate: Locate | None = None
    sides: Callable[[Pair, Where], Sides] | None = None
    hint: Callable[[Pair], str] | None = None
    brief: bool = False

    def module(self, pair: Pair, at: Where) -> tuple[str | None, str]:
        """Path and class of the module, (None, "") where it was not found."""
        if self.locate is None or self.sides is None:
            return None, ""
        try:
            found = self.locate(self.sides(pair, at))
        except Exception:  # where it enters is told beside, and its failure is no finding
            return None, ""
        return found or (None, "")


def gap(one: Output, other: Output) -> Float[Tensor, "batch position"]:
    """The largest difference over the channels of each position."""
    return (one - other).abs().amax(-1)


def compared(
    dimension: str, case: str, pair_of: Callable[[int], Pair], words: str, asking: Asking
) -> Outcome:
    """The outcome of a comparison.

    A difference is one only if two of three texts show it: on one, two experts nearly equal may have flipped.

    Args:
        dimension: the dimension.
        case: which of several.
        pair_of: what both ways give for the input of a number.
        words: both ways, in words: "token by token and at once".
        asking: what is asked of a pair that differs.
    """
    try:
        pairs = [pair_of(0)]
        if pairs[0].apart or not asking.brief:
            pairs.append(pair_of(1))
        if pairs[0].apart != pairs[-1].apart:
            pairs.append(pair_of(2))
    except Exception as error:  # a model raises whatever it met
        return Outcome(dimension, case, "unknown", f"{words}: it raised {first_line(error)}")
    why = next((pair.why_not for pair in pairs if pair.why_not), "")
    if why:
        return Outcome(dimension, case, "unknown", why)
    worst = max(pairs, key=lambda pair: pair.largest / pair.sure)
    most = max(worst.moves, worst.largest if worst.apart and not worst.moves else _TINY)
    numbers = (worst.largest / most, worst.noise.floor / most, worst.sure / most)
    times = sum(pair.apart for pair in pairs)
    if times == 0:
        return Outcome(dimension, case, "clean", f"{words} agree to {numbers[0]:.1e}", *numbers)
    if times == 1:
        says = f"{words} differ by {numbers[0]:.1g} on one text of three, as a tie of routing does"
        return Outcome(dimension, case, "unknown", says, *numbers)
    at = worst.gaps >= worst.sure
    more = asking.hint(worst) if asking.hint is not None else ""
    says = f"{words} differ by {numbers[0]:.2g} of what the input moves, {_where(at)}{more}"
    module, kind = asking.module(worst, at)
    return Outcome(dimension, case, "differs", says, *numbers, module, kind, _places(worst, at))


def first_line(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _where(at: Where) -> str:
    held = torch.nonzero(at.any(0)).flatten().tolist()
    total = at.shape[1]
    if len(held) == total:
        return "at every position"
    some = ", ".join(map(str, held[:4])) + (", ..." if len(held) > 4 else "")
    return f"at {len(held)} of {total} positions ({some})"


def _places(pair: Pair, at: Where) -> tuple[tuple[int, int], ...]:
    """Where they differ, strongest first, as (position, position)."""
    order = pair.gaps.amax(0).argsort(descending=True, stable=True).tolist()
    held = at.any(0)
    return tuple((place, place) for place in order if bool(held[place]))[:_PAIRS]
