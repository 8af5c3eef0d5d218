"""What healing did: the losses before, along and after, and the same of the control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headwise.cut.losses import Loss
from headwise.hub.load import Model

__all__ = ["Healed"]

_EVEN = 0.97
"""From this share of the loss of an even guess on, a model knows no more than that."""


@dataclass(frozen=True, eq=False)
class Healed:
    """A model that was tuned in place.

    Attributes:
        model: the model.
        losses: of the texts, the mean of each step's rows, before that step.
        held_out: (step, mean loss of the held-out texts after so many steps), first and last included.
        before, after: the loss of the held-out texts before, and as the model is now; None without such texts.
        steps: how many steps were made.
        kept: after how many steps the model is as it is now.
        stopped: why it ended before its time; "" where it did not.
        settings: what it was tuned with.
        control: the same tuning of the control; None without one.
        even: the loss of next tokens that a guess has which gives each of the vocabulary the same share; None where
            the loss is another.
    """

    model: Model
    losses: tuple[float, ...]
    held_out: tuple[tuple[int, float], ...]
    before: Loss | None
    after: Loss | None
    steps: int
    kept: int
    stopped: str
    settings: Mapping[str, Any]
    control: Healed | None = None
    even: float | None = None

    @property
    def gain(self) -> float | None:
        """By how much the held-out loss fell."""
        if self.before is None or self.after is None:
            return None
        return self.before.mean - self.after.mean

    @property
    def knows_nothing(self) -> bool:
        """Whether the loss is now about that of an even guess, or above: the model tells nothing of a text."""
        last = self.losses[-1] if self.after is None and self.losses else None
        loss = last if self.after is None else self.after.mean
        return loss is not None and self.even is not None and loss > _EVEN * self.even

    @property
    def gap_before(self) -> float | None:
        """How much more the model lost than the control before both were tuned: what cutting cost."""
        return self._gap("before")

    @property
    def gap_after(self) -> float | None:
        """The same after: what healing did not mend, with what both gained by the texts left out."""
        return self._gap("after")

    @property
    def mended(self) -> float | None:
        """The share of what cutting cost that is gone: 1 - gap after / gap before."""
        before, after = self.gap_before, self.gap_after
        if before is None or after is None or before <= 0:
            return None
        return 1 - after / before

    def as_dict(self) -> Mapping[str, Any]:
        """All of it as plain data, but for the model."""
        losses = {name: getattr(self, name) for name in ("before", "after")}
        return {
            "model": self.model.name,
            "losses": list(self.losses),
            "held_out": [list(pair) for pair in self.held_out],
            **{name: None if loss is None else asdict(loss) for name, loss in losses.items()},
            **{name: getattr(self, name) for name in ("steps", "kept", "stopped")},
            **{name: getattr(self, name) for name in ("gain", "gap_before", "gap_after", "mended")},
            "even": self.even,
            "settings": dict(self.settings),
            "control": None if self.control is None else self.control.as_dict(),
        }

    def _gap(self, when: str) -> float | None:
        if self.control is None:
            return None
        own, other = getattr(self, when), getattr(self.control, when)
        return None if own is None or other is None else own.mean - other.mean
