"""What a step learns from: a batch, and the feed that it comes from.

A feed is asked for the batch of a step by number, and its rows are a pure function of (seed, step): a run that is
taken up again, and each of several processes, need nothing but the number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["IGNORED", "Batch", "Feed", "once"]

IGNORED = -100
"""The goal of a position that does not count."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows, and what they should predict.

    Attributes:
        inputs: what the model is called with, under its own arguments' names: `ids`, and where they are needed
            `documents` and `key_padding_mask`; of pairs `source_ids`, `target_ids` and their masks.
        goal: the token that each position should predict (of pairs: of the target); IGNORED where none counts.
    """

    inputs: Mapping[str, Tensor]
    goal: Int[Tensor, "row position"]

    @property
    def tokens(self) -> int:
        """How many positions count."""
        return int((self.goal != IGNORED).sum())

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device."""
        inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        return replace(self, inputs=inputs, goal=self.goal.to(device))


@runtime_checkable
class Feed(Protocol):
    """Where batches come from."""

    @property
    def rows(self) -> int:
        """Of a step, over all processes and parts."""
        ...

    @property
    def count(self) -> int:
        """How many rows a pass over everything has."""
        ...

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """The batch of a step, or some of its rows.

        Args:
            step: 1, 2, ...: the pass after the last row begins in the midst of a step.
            rows: which of the step's, a process's share or a part that fits into memory; None = all.
        """
        ...


def once(feed: Feed, rows: slice | None = None) -> Iterator[Batch]:
    """Every row of a feed once, in the order of its first pass: the last batch may hold fewer.

    Args:
        feed: for instance of texts that were held out.
        rows: which of each step's, as `Feed.batch` takes; a batch of none of them is left out.
    """
    steps, rest = divmod(feed.count, feed.rows)
    share = range(feed.rows)[rows or slice(None)]
    if len(share):
        for step in range(1, steps + 1):
            yield feed.batch(step, rows)
    kept = [at for at in share if at < rest]
    if kept:
        yield feed.batch(steps + 1, slice(kept[0], kept[-1] + 1, share.step))
