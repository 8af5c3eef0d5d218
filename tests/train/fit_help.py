"""A tiny training: a feed of a few lines that is a pure function of (seed, step), and a model that learns it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.nn import Decoder, TransformerConfig
from headwise.train.data import IGNORED, Batch
from headwise.train.fitting import fit
from headwise.train.recipe import Recipe
from headwise.train.run import Run

VOCAB, CONTEXT, ROWS = 24, 12, 6


@dataclass(frozen=True)
class Counting:
    """Rows that count upwards from anywhere, of unequal lengths."""

    seed: int = 0
    rows: int = ROWS
    count: int = 4 * ROWS

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        made = torch.Generator().manual_seed(1000 * self.seed + step)
        start = torch.randint(VOCAB, (self.rows, 1), generator=made)
        length = torch.randint(3, CONTEXT, (self.rows, 1), generator=made)
        at = torch.arange(CONTEXT + 1)
        line = (start + at) % VOCAB
        goal = torch.where(at[1:] <= length, line[:, 1:], IGNORED)
        which = slice(None) if rows is None else rows
        return Batch({"ids": line[which, :-1]}, goal[which])


def recipe(**fields: Any) -> Recipe:
    told = {"context": CONTEXT, "rows": ROWS, "steps": 12, "warmup": 2, "learning_rate": 5e-3}
    return Recipe(**{**told, "evaluate_every": 4, "save_every": 4, "dtype": "float32", **fields})


def tiny(dropout: float = 0.1, **fields: Any) -> Decoder:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "d_model": 16, "num_layers": 2, "num_heads": 2, "max_length": 16}
    return Decoder(TransformerConfig(**{**sizes, "dropout": dropout, **fields}))


def trained(folder: Path, *, held: bool = True, **given: Any) -> Run:
    dropout = given.pop("dropout", 0.1)
    module = given.pop("module", None) or tiny(dropout)
    asked = given.pop("recipe", None) or recipe()
    feed = given.pop("feed", None) or Counting(rows=asked.rows)
    held_out = Counting(seed=1, rows=asked.rows) if held else None
    return fit(module, feed, held_out, asked, folder, quiet=True, **given)


def weights(run: Run) -> dict[str, Tensor]:
    return {name: x.clone() for name, x in run.model.state_dict().items()}


def told(run: Run) -> list[tuple[Any, ...]]:
    """The log, but for what a clock says."""
    return [(x.step, x.loss, x.held_out, x.rate, x.norm, x.tokens) for x in run.log]


def same(one: Run, other: Run) -> bool:
    """Bit for bit: weights, and all of the log but the clock's."""
    first, second = weights(one), weights(other)
    equal = all(torch.equal(first[name], second[name]) for name in first)
    return first.keys() == second.keys() and equal and told(one) == told(other)
