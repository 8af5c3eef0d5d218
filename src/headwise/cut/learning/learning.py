"""learn_gates: train a hard-concrete gate on every head until only so many stay open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.standing_in import How
from headwise.cut.learning.hard_concrete import HardConcrete
from headwise.cut.learning.pressure import Pressure
from headwise.cut.losses import LossFunction, losses_of
from headwise.cut.ranking.gradients import still
from headwise.cut.selecting import Heads
from headwise.cut.telling import Progress, lines
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId, TextError
from headwise.see.profile.together import Team, joined
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in

__all__ = ["Learned", "learn_gates"]


@dataclass(frozen=True, eq=False)
class Learned:
    """What training the gates came to.

    Attributes:
        heads: every head that had a gate, in order.
        log_alpha: of each; the larger, the longer it stayed open.
        loss: the mean loss of each step, with the gates as they were drawn.
        open: the expected number of open gates after each step.
        wanted: how many were to stay open.
        stopped: whether Ctrl-C ended it early.
    """

    heads: tuple[HeadId, ...]
    log_alpha: Float[Tensor, " gate"]
    loss: tuple[float, ...]
    open: tuple[float, ...]
    wanted: int
    stopped: bool

    @property
    def order(self) -> tuple[HeadId, ...]:
        """The heads from the first to cut to the last."""
        return tuple(self.heads[i] for i in self.log_alpha.argsort(stable=True).tolist())

    @property
    def closed(self) -> tuple[HeadId, ...]:
        """The heads to prune: all but those that were to stay."""
        return self.order[: len(self.heads) - self.wanted]

    @property
    def scores(self) -> Mapping[HeadId, float]:
        """log_alpha by head."""
        return dict(zip(self.heads, self.log_alpha.tolist(), strict=True))


def learn_gates(
    model: Model,
    texts: Texts,
    *,
    keep: float,
    heads: Heads | None = None,
    how: How = "mean",
    steps: int = 200,
    learning_rate: float = 0.1,
    batches: int = 1,
    loss: LossFunction | None = None,
    seed: int = 0,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Learned:
    """Train a hard-concrete gate on each head, the model's own weights frozen (Voita et al. 2019).

    The mean loss is made small under a pressure that closes gates until the expected number of open ones is as
    wanted: a Lagrangian whose goal falls from all to `keep` over the first half of the steps, and then stays (Wang
    et al., "Structured pruning of large language models", 2020). Started in several processes (accelerate launch),
    these share the batches of a step, and learn what one alone would.

    Args:
        model: from `load`; it stays as it is.
        texts: whatever `profile` takes; each batch draws its own gates, so many small ones (a list of
            {"input_ids": rows}) teach more than few large.
        keep: the share of the gates that stays open, above 0, at most 1.
        heads: which heads have a gate; None = all.
        how: what stands in for a closed head: its "mean" over the texts, or "zero".
        steps: how many steps of Adam.
        learning_rate: of log_alpha; the pressure rises at the same rate.
        batches: how many batches a step takes, with gates drawn for each.
        loss: a function of the model's output and inputs; None = of the next token.
        seed: of the draws and of the order of the batches.
        quiet: no progress on stderr.
        progress: called as progress(steps done, steps in all, how it stands), in place of lines on stderr.

    Raises:
        ConfigError: a share, number of steps or rate that is none.
        HeadwiseError: as `ablate` and `loss` do.
    """
    _check(keep, steps, learning_rate, batches)
    with joined() as team:
        every = list(batches_in(model, texts, None, None, "learn_gates"))
        if not every:
            raise TextError("there is no text: the corpus is empty")
        gates = HardConcrete(model, heads, how, texts=None if how == "zero" else texts, seed=seed)
        wanted = max(1, round(keep * len(gates.heads)))
        run = _Training(model, gates, every, loss, team, batches, seed)
        pressure = Pressure(len(gates.heads), wanted, steps // 2, learning_rate)
        shown = progress or lines("learn_gates", quiet=quiet or team.rank > 0)
        stopped = run.through(steps, pressure, learning_rate, shown)
    return Learned(
        gates.heads,
        gates.value.detach().cpu().clone(),
        tuple(run.losses),
        tuple(run.opened),
        wanted,
        stopped,
    )


@dataclass(eq=False)
class _Training:
    """The gates on their way."""

    model: Model
    gates: HardConcrete
    every: Sequence[Batch]
    loss: LossFunction | None
    team: Team
    batches: int
    seed: int
    losses: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)

    def through(self, steps: int, pressure: Pressure, rate: float, progress: Progress) -> bool:
        """All steps; whether Ctrl-C ended them early."""
        adam = torch.optim.Adam([self.gates.value], lr=rate)
        try:
            with still(self.model.module):
                for step in range(steps):
                    progress(step, steps, self._line())
                    self._step(step, pressure, adam)
        except KeyboardInterrupt:
            if not self.losses or self.team.size > 1:
                raise
            return True
        return False

    def _step(self, step: int, pressure: Pressure, adam: torch.optim.Optimizer) -> None:
        own = [self._of(n) for n in self._numbers(step) if n % self.team.size == self.team.rank]
        every = sorted(one for told in self.team.tell(own) for one in told)
        count = sum(one[1] for one in every)
        slope = torch.tensor([one[3] for one in every], dtype=torch.float64).sum(0) / count
        adam.zero_grad()
        pressure.penalty(self.gates.expected_open(), step).backward()
        assert self.gates.value.grad is not None
        self.gates.value.grad += slope.to(self.gates.value)
        adam.step()
        pressure.rise()
        self.losses.append(sum(one[2] for one in every) / count)
        self.opened.append(self.gates.expected_open().item())

    def _numbers(self, step: int) -> range:
        """The numbers of this step's batches, counted through the whole training."""
        return range(step * self.batches, (step + 1) * self.batches)

    def _of(self, number: int) -> tuple[int, int, float, list[float]]:
        """What one batch says: its number, how many losses it has, their sum, and the slope of that."""
        epoch, place = divmod(number, len(self.every))
        order = torch.randperm(
            len(self.every), generator=torch.Generator().manual_seed(self.seed + epoch)
        )
        self.gates.draw_from(self.seed * 1_000_003 + number)
        self.gates.train()
        with self.gates.applied():
            found = losses_of(self.model, self.every[int(order[place])], self.loss)
            total = found.total
        (slope,) = torch.autograd.grad(total, [self.gates.value])
        return number, int(found.counts.sum()), total.item(), slope.double().tolist()

    def _line(self) -> str:
        if not self.losses:
            return "the first step"
        return f"loss {self.losses[-1]:.3f}, {self.opened[-1]:.0f} of {len(self.gates.heads)} gates open"


def _check(keep: float, steps: int, rate: float, batches: int) -> None:
    if not 0 < keep <= 1:
        raise ConfigError(f"keep is a share above 0 and at most 1, came {keep!r}")
    for name, value in (("steps", steps), ("batches", batches)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, came {value!r}")
    if not (rate > 0 and math.isfinite(rate)):
        raise ConfigError(f"learning_rate must be above 0, came {rate!r}")
