"""What an audit found: one outcome for each way in which a model could look where it must not, and all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["COMPARISONS", "DIMENSIONS", "EDITS", "Audit", "Outcome", "Verdict"]

EDITS = ("future", "padding", "documents", "rows", "memory")
"""Dimensions told by edits at equal shape: what moves and must not is a leak."""

COMPARISONS = ("cached", "chunked", "unpadded", "weights", "training")
"""Dimensions told by two ways to run that must agree: where they do not, the model is inconsistent."""

DIMENSIONS = EDITS + COMPARISONS

Verdict = Literal["clean", "leak", "differs", "unknown", "skipped"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was found in one dimension.

    Attributes:
        dimension: one of DIMENSIONS.
        case: which of several ("left", "train", "eager"), "" where there is one.
        verdict: "leak" (an edit moved what it must not), "differs" (two ways to run that must agree do not),
            "clean", "unknown" (it could not be told, for instance for NaN), "skipped" (it does not apply).
        says: one line: what was found, or why it could not be told or does not apply.
        strength: the largest forbidden influence (or difference), relative to the largest allowed one (or to the
            output); 0 = nothing moved.
        floor: what rounding alone moves, on the same scale.
        smallest: the smallest influence that would have been called one; NaN where nothing was measured.
        module: path of the first module in which it enters, "" for the model's own forward; None where not found.
        kind: the class of that module.
        pairs: (query, key), strongest first: which positions see which; for comparisons which position differs,
            twice.
        advice: what it looks like, "" where no common cause fits.
        allowed: whose input may be in whose output.
        measured: the influence of `key` on `query`, relative to the largest allowed; NaN where it was not measured.
    """

    dimension: str
    case: str
    verdict: Verdict
    says: str
    strength: float = 0.0
    floor: float = 0.0
    smallest: float = math.nan
    module: str | None = None
    kind: str = ""
    pairs: tuple[tuple[int, int], ...] = ()
    advice: str = ""
    allowed: Bool[Tensor, "query key"] | None = None
    measured: Float[Tensor, "query key"] | None = None

    @property
    def bad(self) -> bool:
        """Whether the model does what it must not."""
        return self.verdict in ("leak", "differs")

    @property
    def title(self) -> str:
        """The dimension with its case, as it is printed."""
        return f"{self.dimension} ({self.case})" if self.case else self.dimension

    @property
    def place(self) -> str:
        """The module in which it enters, in words; "" where not found."""
        if self.module is None:
            return ""
        return f"{self.module} ({self.kind})" if self.module else f"{self.kind} itself"

    def as_dict(self) -> dict[str, Any]:
        """As JSON takes it; what was not measured is null."""
        return {
            "dimension": self.dimension,
            "case": self.case,
            "verdict": self.verdict,
            "says": self.says,
            "strength": _number(self.strength),
            "floor": _number(self.floor),
            "smallest": _number(self.smallest),
            "module": self.module,
            "kind": self.kind,
            "pairs": [list(pair) for pair in self.pairs],
            "advice": self.advice,
            "allowed": None if self.allowed is None else self.allowed.tolist(),
            "measured": None
            if self.measured is None
            else [[_number(x) for x in row] for row in self.measured.tolist()],
        }


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit of one model found. Made by `hw.audit`.

    Attributes:
        name: of the model.
        outcomes: in the order of DIMENSIONS.
        declared: what may influence what, in words.
        length: positions of the inputs.
        layers: over which the declared mask reaches; None where it makes no difference.
        dtype: in which it ran, in words.
        weights: "given", or "wide": drawn anew.
        seed: of the inputs and of weights drawn.
        notes: what limits what was seen, a line each.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    declared: str
    length: int
    layers: int | None
    dtype: str
    weights: str
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def leaks(self) -> tuple[Outcome, ...]:
        """What the model does and must not: leaks, then inconsistencies."""
        bad = [outcome for outcome in self.outcomes if outcome.bad]
        return tuple(sorted(bad, key=lambda outcome: outcome.verdict != "leak"))

    @property
    def unknown(self) -> tuple[Outcome, ...]:
        """What could not be told."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict == "unknown")

    @property
    def checked(self) -> tuple[Outcome, ...]:
        """What was measured, clean or not."""
        return tuple(o for o in self.outcomes if o.bad or o.verdict == "clean")

    @property
    def clean(self) -> bool:
        """Whether something was measured, nothing bad was found, and nothing is unknown."""
        return bool(self.checked) and not self.leaks and not self.unknown

    @property
    def code(self) -> int:
        """The exit code that says so: 0 clean, 1 a leak or inconsistency, 2 it could not be told."""
        return 1 if self.leaks else 0 if self.clean else 2

    def __getitem__(self, dimension: str) -> Outcome:
        """The worst outcome of a dimension.

        Raises:
            KeyError: it was not asked for.
        """
        found = [outcome for outcome in self.outcomes if outcome.dimension == dimension]
        if not found:
            raise KeyError(dimension)
        return min(found, key=lambda outcome: _WORST.index(outcome.verdict))

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "name": self.name,
            "clean": self.clean,
            "declared": self.declared,
            "length": self.length,
            "layers": self.layers,
            "dtype": self.dtype,
            "weights": self.weights,
            "seed": self.seed,
            "notes": list(self.notes),
            "outcomes": [outcome.as_dict() for outcome in self.outcomes],
        }

    def __str__(self) -> str:
        verdict = "clean" if self.clean else "not clean" if self.leaks else "could not be told"
        head = f"{self.name}: {verdict} ({self.declared}, {self.length} positions, {self.dtype})"
        told = (*self.leaks, *self.unknown)
        lines = [head]
        for one in told:
            lines.append(f"  {one.title}: {one.verdict}: {one.says}")
            below = [f"enters in {one.place}" if one.place else "", one.advice]
            lines += [f"    {'; '.join(filter(None, below))}"] if any(below) else []
        return "\n".join(lines)


_WORST: tuple[Verdict, ...] = ("leak", "differs", "unknown", "clean", "skipped")


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None
