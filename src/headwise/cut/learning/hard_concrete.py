"""Hard-concrete gates: random gates that are exactly 0 or 1 much of the time, and yet have gradients.

Louizos, Welling and Kingma, "Learning sparse neural networks through L0 regularization" (2018); on attention heads
Voita et al., "Analyzing multi-head self-attention" (2019).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.gates import Gates
from headwise.cut.ablating.standing_in import How
from headwise.cut.selecting import Heads
from headwise.hub.load import Model
from headwise.see.texts.given import Texts

__all__ = ["BETA", "STRETCH", "HardConcrete", "hard_concrete", "odds_open"]

BETA = 2 / 3
"""The temperature of the concrete distribution."""

STRETCH = (-0.1, 1.1)
"""Its interval is stretched to this before it is cut off at 0 and 1."""


def hard_concrete(
    log_alpha: Float[Tensor, " gate"], draw: Float[Tensor, " gate"] | None = None
) -> Float[Tensor, " gate"]:
    """The value of each gate in 0 ... 1, with gradients for log_alpha.

    Args:
        log_alpha: where each gate lies; far below 0 it is closed, far above open.
        draw: numbers drawn evenly between 0 and 1; None = no chance, the gate as it is used once learned.
    """
    low, high = STRETCH
    if draw is None:
        even = torch.sigmoid(log_alpha)
    else:
        draw = draw.clamp(1e-6, 1 - 1e-6)
        even = torch.sigmoid((draw.log() - (-draw).log1p() + log_alpha) / BETA)
    gates: Tensor = (low + (high - low) * even).clamp(0, 1)
    return gates


def odds_open(log_alpha: Float[Tensor, " gate"]) -> Float[Tensor, " gate"]:
    """How probable it is that each gate is not exactly 0."""
    low, high = STRETCH
    return torch.sigmoid(log_alpha - BETA * math.log(-low / high))


class HardConcrete(Gates):
    """A gate for each head that opens and closes by chance while it trains, and is sharp afterwards.

        gates = HardConcrete(model, how="mean", texts=texts)
        with gates.applied():                       # drawn anew
            (loss(model) + penalty * gates.expected_open()).backward()

    Args:
        model: from `load`.
        heads: which heads, as `ablate` takes them; None = all.
        how: what stands in for a closed head, as in `ablate`.
        texts: for "mean" and "resample".
        start: of every log_alpha; at 2 a gate is open 97 times of 100.
        seed: of the draws.

    Attributes:
        heads: the head of each gate, in order.
        value: log_alpha of each gate, [gate], the parameter that is learned.

    Raises:
        HeadwiseError: as `ablate` does.
    """

    def __init__(
        self,
        model: Model,
        heads: Heads | None = None,
        how: How = "mean",
        *,
        texts: Texts | None = None,
        start: float = 2.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, heads, how, texts=texts, start=start, seed=seed)
        self._draw = torch.Generator()
        self.draw_from(seed)

    def draw_from(self, seed: int) -> None:
        """Let the next draws follow from this seed."""
        self._draw.manual_seed(seed)

    def forward(self) -> Float[Tensor, " gate"]:
        """The gates that apply now: in training drawn anew at each call, else those learned."""
        if not self.training:
            return hard_concrete(self.value)
        draw = torch.rand(len(self.heads), generator=self._draw)
        return hard_concrete(self.value, draw.to(self.value.device))

    def expected_open(self) -> Float[Tensor, ""]:
        """How many gates are open on average (the L0 norm of the gates), with gradients."""
        return odds_open(self.value).sum()
