"""Two ways to run the same input, as tracing needs them: what to call, and where the compared lies in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from headwise.check.reading.given import Given
from headwise.check.running.subject import Subject

__all__ = ["Draw", "Locate", "Side", "Sides"]

Draw = Callable[[int], Given]
"""An input for each number: at least two rows, always of one shape, texts that differ everywhere."""


@dataclass(frozen=True, eq=False)
class Side:
    """One way to run.

    Attributes:
        subject: the copy that `call` runs, which nothing else runs.
        call: runs it, in several calls where it reads piece by piece.
        pieces: how many positions each call reads, in order.
        batch: how many rows it reads; None = those that are compared.
        row: the row that is compared; None = all.
        start: the position at which the compared begin.
    """

    subject: Subject
    call: Callable[[], Any]
    pieces: tuple[int, ...]
    batch: int | None = None
    row: int | None = None
    start: int = 0


@dataclass(frozen=True, eq=False)
class Sides:
    """Two ways to run that differ.

    Attributes:
        one: how it is run as a rule.
        other: how it is run otherwise.
        at: where what comes out differs, among the compared rows and positions.
        tolerance: relative difference below which nothing differs.
    """

    one: Side
    other: Side
    at: Bool[Tensor, "batch position"]
    tolerance: float


Locate = Callable[[Sides], tuple[str, str] | None]
"""Names the path and class of the first module in which two sides part."""
