"""Cutting in steps: rank, cut some, rank again what is left, since heads take over from those that are gone.

What was cut so far is never lost: Ctrl-C ends a cut after the last whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.telling import Progress
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId, LayerId

__all__ = ["Path", "Ranked", "Step", "in_steps", "mark_path", "path_of", "share_after"]

_NAME = "_headwise_path"


@dataclass(frozen=True)
class Ranked:
    """What one look at a model says.

    Attributes:
        heads: those to cut now, first the one that costs least.
        loss: the mean loss on the texts before they go; NaN where it was not measured.
    """

    heads: tuple[HeadId, ...]
    loss: float = float("nan")


@dataclass(frozen=True)
class Step:
    """One step of a cut.

    Attributes:
        heads: that went, in order.
        loss: the mean loss on the texts before they went, in nats per token.
        removed: how many heads were gone before.
    """

    heads: tuple[HeadId, ...]
    loss: float
    removed: int


@dataclass(frozen=True)
class Path:
    """How a model was cut, step by step.

    Attributes:
        steps: in order.
        planned: how many there were to be.
    """

    steps: tuple[Step, ...]
    planned: int

    @property
    def stopped(self) -> bool:
        """Whether Ctrl-C ended it early."""
        return len(self.steps) < self.planned

    @property
    def heads(self) -> tuple[HeadId, ...]:
        """All heads that went, in the order they did."""
        return tuple(head for step in self.steps for head in step.heads)

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """Heads removed, and the mean loss with so many gone (before each step)."""
        return tuple((step.removed, step.loss) for step in self.steps)


def path_of(module: nn.Module) -> Path | None:
    """How a model was cut on texts, the last time; None for one that was not."""
    return module.__dict__.get(_NAME)


def mark_path(module: nn.Module, path: Path) -> None:
    """Write on a model how it was cut; a copy of it has it too."""
    module.__dict__[_NAME] = path


def share_after(step: int, steps: int) -> float:
    """What share of the whole cut is done after this step, counted from 1: even steps."""
    return step / steps


def in_steps(
    model: Model,
    steps: int,
    rank: Callable[[Model, float], Ranked],
    new_outputs: Callable[[Model, Sequence[HeadId]], Mapping[LayerId, NewOutput]],
    cut: Callable[[Model, Sequence[HeadId], Mapping[LayerId, NewOutput]], object],
    *,
    progress: Progress | None = None,
) -> Path:
    """Cut a model in place, step by step.

    Args:
        model: from `load`; it is changed.
        steps: how many.
        rank: given the model as it is and the share of the whole cut that is to be done after this step, which
            heads go now.
        new_outputs: what becomes of W_O when these heads go.
        cut: the surgery, in place, done whole or not at all.
        progress: called as progress(steps done, steps in all, how it stands).

    Raises:
        ConfigError: no step.
        KeyboardInterrupt: before the first step was done; later it ends the cut there.
    """
    if steps < 1:
        raise ConfigError(f"steps must be at least 1, came {steps!r}")
    done: list[Step] = []
    removed = 0
    try:
        for step in range(1, steps + 1):
            if progress is not None:
                progress(step - 1, steps, _stands(done, removed))
            ranked = rank(model, share_after(step, steps))
            if ranked.heads:
                cut(model, ranked.heads, new_outputs(model, ranked.heads))
            done.append(Step(ranked.heads, ranked.loss, removed))
            removed += len(ranked.heads)
    except KeyboardInterrupt:
        if not done:
            raise
    return Path(tuple(done), steps)


def _stands(done: Sequence[Step], removed: int) -> str:
    if not done:
        return "looking at the whole model"
    return f"{removed} heads cut, loss {done[-1].loss:.3f} before the last of them went"
