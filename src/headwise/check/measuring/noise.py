"""How far rounding moves a model's output, which no influence below it can be told from by its size alone.

A second run is no measure of it (the shapes of products may depend on other tokens): the embedded text is jittered
by as much as the coarsest arithmetic inside rounds, and what that moves is the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.check.measuring.nudge import Nudge

__all__ = ["SURE", "Coarsest", "Noise", "noise_of"]

Runs = Callable[[Nudge | None], Float[Tensor, "batch position channel"]]

SURE = 64.0
"""An influence so many times the noise is none of it."""

_ULPS = 8.0
"""Below so many units in the last place of the output nothing is told from a difference of values."""


@dataclass(frozen=True)
class Noise:
    """What moves an output without a cause, in its own units.

    Attributes:
        fine: of the arithmetic that the run is in, relative.
        eps: of the coarsest arithmetic inside, relative.
        scale: the largest output.
        jittered: what a jitter of that size moves.
        rerun: what a second run moves: 0 where a model is deterministic.
    """

    fine: float
    eps: float
    scale: float
    jittered: float
    rerun: float

    @property
    def floor(self) -> float:
        """What rounding moves."""
        return max(self.eps * self.scale, self.jittered, self.rerun)

    @property
    def least(self) -> float:
        """The least difference of outputs that is worth a second look."""
        return max(_ULPS * self.fine * self.scale, 4 * self.rerun)

    @property
    def sure(self) -> float:
        """From here on a difference of outputs is no noise."""
        return SURE * self.floor


def noise_of(run: Runs, fine: float) -> Noise:
    """The noise of a run on one input.

    Args:
        run: runs the same input, with or without a nudge.
        fine: how its dtype rounds, relative.
    """
    with Coarsest() as coarsest:
        first = run(None)
    again = run(None)
    eps = max(coarsest.eps, fine)
    jittered = run(Nudge(eps, seed=1))
    return Noise(fine, eps, _largest(first), _largest(jittered - first), _largest(again - first))


class Coarsest(TorchDispatchMode):
    """The coarsest dtype that what runs within casts a finer number down to."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.eps = torch.finfo(torch.float64).eps

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if _floats(out) and out.numel() > 1:
            eps = torch.finfo(out.dtype).eps
            if any(torch.finfo(x.dtype).eps < eps for x in args if _floats(x)):
                self.eps = max(self.eps, eps)
        return out


def _floats(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _largest(x: Tensor) -> float:
    """The largest number; NaN where there is one."""
    return float(x.abs().max()) if x.numel() else 0.0
