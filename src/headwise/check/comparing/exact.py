"""Run a subject as exactly as it can be: in float64 throughout, where its code lets it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.check.measuring.noise import Coarsest, Noise, noise_of
from headwise.check.reading.given import Given
from headwise.check.running.subject import Subject
from headwise.check.running.widening import widened

__all__ = ["Runner", "runner_of"]


@dataclass(frozen=True, eq=False)
class Runner:
    """A subject, and how it is run.

    Attributes:
        subject: what is run.
        around: a context for each run.
    """

    subject: Subject
    around: Callable[[], AbstractContextManager[None]]
    _eps: list[float] = field(default_factory=list, init=False)

    def run(self, given: Given, **how: Any) -> Float[Tensor, "batch position channel"]:
        """`Subject.run`, on a fresh copy."""
        with self.around():
            return self.subject.run(given, **how)

    def noise(
        self, given: Given, out: Float[Tensor, "batch position channel"], apart: float, **how: Any
    ) -> Noise:
        """How far rounding moves this run; only the least that it can be, where `apart` is below that already.

        Args:
            given: the input.
            out: what it gave.
            apart: the difference that is to be told from rounding.
            how: as of `run`.
        """
        if not self._eps:
            with Coarsest() as coarsest:
                self.run(given, **how)
            self._eps.append(coarsest.eps)
        fine = self.subject.fine
        least = Noise(fine, max(self._eps[0], fine), float(out.abs().max()), 0.0, 0.0)
        if apart < least.sure:
            return least
        return noise_of(lambda nudge: self.run(given, nudge=nudge, **how), fine)

    def within(self, call: Callable[[], Any]) -> Any:
        """A call run as all others are."""
        with self.around():
            return call()


def runner_of(subject: Subject, given: Given) -> Runner:
    """The most exact way in which the subject runs on an input; where that raises, the runs will say so."""
    if subject.dtype is torch.float64:
        wide = Runner(subject, widened)
        try:
            if bool(wide.run(given).isfinite().all()):
                return wide
        except Exception:  # its code minds a dtype that it did not ask for
            pass
    return Runner(subject, nullcontext)
