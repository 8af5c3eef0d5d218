"""One step of a training, and a look at the held-out rows: what every process does of it, and what comes of all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.nn.optimizing import adamw, cosine
from headwise.train.data import Batch, Feed
from headwise.train.processes import Processes, share
from headwise.train.recipe import Recipe

__all__ = ["Found", "Stepper"]


@dataclass(frozen=True)
class Found:
    """What a step came to.

    Attributes:
        loss: the mean over its tokens, before it.
        norm: of the gradients, before they were clipped.
        tokens: that counted.
        done: whether the weights were changed: both numbers are finite.
    """

    loss: float
    norm: float
    tokens: int
    done: bool


class Stepper:
    """A model with its optimizer and schedule, over one or several processes.

    Args:
        module: of `headwise.nn`; trained in place (in shards: as torch shards it).
        recipe: of the steps.
        processes: this one among them.
    """

    def __init__(self, module: nn.Module, recipe: Recipe, processes: Processes) -> None:
        self.recipe = recipe
        self.processes = processes
        self.wrapped = processes.wrapped(module).train()
        self.parameters = [p for p in self.wrapped.parameters() if p.requires_grad]
        self.optimizer = adamw(
            self.parameters, recipe.learning_rate, recipe.weight_decay, recipe.betas
        )
        self.schedule = cosine(self.optimizer, recipe.warmup, recipe.steps, recipe.least_rate)

    @property
    def rate(self) -> float:
        """Of the next step."""
        return float(self.schedule.get_last_lr()[0])

    def step(self, feed: Feed, number: int) -> Found:
        """Make a step; where its loss or its gradients are no number, leave the weights as they are."""
        processes = self.processes
        batches = [batch for batch, _ in self._parts(feed, number, feed.rows)]
        (count,) = processes.sums(sum(batch.tokens for batch in batches))
        self.optimizer.zero_grad(set_to_none=True)
        total: Tensor | float = 0.0
        for at, batch in enumerate(batches, 1):
            with processes.apart(self.wrapped, at == len(batches)):
                with processes.autocast():
                    loss, _ = self.wrapped(batch.to(processes.device))
                # the gradients of several shares are averaged, and those of a sum are wanted
                (loss * (processes.shares / max(count, 1))).backward()
            total = total + loss.detach()
        (summed,) = processes.sums(total)
        mean, norm = summed / max(count, 1), self._clipped()
        done = math.isfinite(mean) and math.isfinite(norm)
        if done:
            self.optimizer.step()
            self.schedule.step()
        return Found(mean, norm, int(count), done)

    def look(self, feed: Feed, most: int | None = None) -> float:
        """The mean loss over every row of a feed once, or the first `most` of its first pass, in eval mode."""
        wanted = feed.count if most is None else min(feed.count, most)
        total: Tensor | float = 0.0
        count = 0
        self.wrapped.eval()
        with torch.no_grad(), self.processes.autocast():
            for number in range(1, -(-wanted // feed.rows) + 1):
                rows = min(feed.rows, wanted - (number - 1) * feed.rows)
                for batch, counts in self._parts(feed, number, rows):
                    loss, _ = self.wrapped(batch.to(self.processes.device))
                    if counts:
                        total, count = total + loss, count + batch.tokens
        self.wrapped.train()
        summed, counted = self.processes.sums(total, count)
        return summed / counted if counted else math.nan

    def no_numbers(self, feed: Feed, number: int) -> list[int]:
        """Which rows of a step, from 0, have a loss that is no number by themselves."""
        found = []
        with torch.no_grad(), self.processes.autocast():
            for row in range(feed.rows):
                batch = feed.batch(number, slice(row, row + 1))
                loss, _ = self.wrapped(batch.to(self.processes.device))
                if not math.isfinite(float(loss)):
                    found.append(row)
        return found

    def sound(self) -> bool:
        """Whether every weight is a finite number."""
        own = [p.to_local() if hasattr(p, "to_local") else p for p in self.parameters]
        bad = sum(int(not torch.isfinite(p.detach()).all()) for p in own)
        return not self.processes.sums(bad)[0]

    def state(self) -> dict[str, Any]:
        """Weights, moments and schedule; all processes must ask."""
        whole = self.processes.state(self.wrapped, self.optimizer)
        return {**whole, "schedule": self.schedule.state_dict()}

    def put(self, state: dict[str, Any]) -> None:
        """Back to such a state."""
        self.processes.put(self.wrapped, self.optimizer, state)
        self.schedule.load_state_dict(state["schedule"])

    def _parts(self, feed: Feed, number: int, rows: int) -> Iterator[tuple[Batch, bool]]:
        """This process's parts of a step; a part without rows has the first, which then does not count."""
        parts, accumulate = self.processes, self.recipe.accumulate
        for at in range(accumulate):
            which = share(rows, parts.share * accumulate + at, parts.shares * accumulate)
            counts = which.stop > which.start
            yield feed.batch(number, which if counts else slice(0, 1)), counts

    def _clipped(self) -> float:
        """Clip the gradients; their length before."""
        norm: Any = nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip or math.inf)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
