"""The pressure that closes gates until so many are open: a Lagrangian with a goal that falls."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

__all__ = ["Pressure"]


class Pressure:
    """lambda_1 * gap + lambda_2 * gap^2, with gap the share of gates that are open beyond the goal.

    Both lambdas rise as long as there is a gap (the first falls again where too few are open), so whatever the loss
    is worth, the gap closes (Wang et al. 2020).

    Args:
        gates: how many there are.
        wanted: how many are to be open in the end.
        falling: over how many steps the goal falls from all of them to that.
        rate: how fast the lambdas rise.
    """

    def __init__(self, gates: int, wanted: int, falling: int, rate: float) -> None:
        self.gates, self.wanted, self.falling, self.rate = gates, wanted, falling, rate
        self.first = self.second = 0.0
        self._gap = 0.0

    def goal(self, step: int) -> float:
        """How many gates are to be open at this step."""
        done = min(1.0, (step + 1) / max(self.falling, 1))
        return self.gates + done * (self.wanted - self.gates)

    def penalty(self, opened: Float[Tensor, ""], step: int) -> Float[Tensor, ""]:
        """What is added to the mean loss, with gradients for the gates.

        Args:
            opened: the expected number of open gates.
            step: which step this is, from 0.
        """
        gap = (opened - self.goal(step)) / self.gates
        self._gap = float(gap.detach())
        penalty: Tensor = self.first * gap + self.second * gap * gap
        return penalty

    def rise(self) -> None:
        """After a step."""
        self.first += self.rate * self._gap
        self.second += self.rate * self._gap**2
