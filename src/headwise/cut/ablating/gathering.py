"""Head outputs over texts: their means, and a pool of them to draw from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.scores import Scores
from headwise.cut.ablating.applying import applied
from headwise.cut.census import Run, census
from headwise.hub.load import Model
from headwise.hub.shards import whole
from headwise.names import LayerId
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in

__all__ = ["OutputSums", "each_output", "mean_outputs", "output_pool", "real_rows"]

_POOL = 2048
"""How many tokens' outputs are kept to draw from."""

Rows = Float[Tensor, "token head v_dim"]


def mean_outputs(model: Model, texts: Texts) -> dict[LayerId, Float[Tensor, "head v_dim"]]:
    """The mean output of every head before W_O over all tokens of some texts, in float32.

    Args:
        model: from `load`.
        texts: whatever `profile` takes.

    Raises:
        TextError: no text, or one that cannot be read.
    """
    held = OutputSums()
    each_output(model, batches_in(model, texts, None, None, "ablate"), held.take)
    return held.means


class OutputSums:
    """Sums of head outputs in float64, on the CPU, and over how many tokens they are.

    Attributes:
        sums: by run, [head, v_dim].
        counts: by run.
    """

    def __init__(self) -> None:
        self.sums: dict[LayerId, Tensor] = {}
        self.counts: dict[LayerId, int] = {}

    def take(self, run: Run, rows: Rows) -> None:
        """Add the outputs of some tokens (`each_output`)."""
        self.add(run.id, rows.double().sum(0).cpu(), len(rows))

    def add(self, id: LayerId, total: Float[Tensor, "head v_dim"], count: int) -> None:
        """Add a sum over so many tokens."""
        self.sums[id] = total + self.sums.get(id, torch.zeros(()))
        self.counts[id] = count + self.counts.get(id, 0)

    @property
    def means(self) -> dict[LayerId, Float[Tensor, "head v_dim"]]:
        """The mean over all tokens, in float32."""
        return {id: (total / self.counts[id]).float() for id, total in self.sums.items()}


def output_pool(model: Model, texts: Texts, seed: int = 0) -> dict[LayerId, Rows]:
    """Outputs of every head at up to 2,048 tokens of some texts, drawn evenly from all."""
    kept: dict[LayerId, Tensor] = {}
    keys: dict[LayerId, Tensor] = {}
    draw = torch.Generator().manual_seed(seed)

    def take(run: Run, rows: Tensor) -> None:
        """Keep the rows with the smallest random keys."""
        key = torch.rand(len(rows), generator=draw)
        if run.id in kept:
            rows, key = torch.cat([kept[run.id], rows]), torch.cat([keys[run.id], key])
        best = key.argsort()[:_POOL].sort().values
        kept[run.id], keys[run.id] = rows[best.to(rows.device)], key[best]

    each_output(model, batches_in(model, texts, None, None, "ablate"), take)
    return kept


def each_output(model: Model, batches: Iterator[Batch], take: Callable[[Run, Rows], None]) -> None:
    """Run the model on batches, handing on the head outputs of the real tokens of every layer."""
    for batch in batches:
        with _taking(model, batch, take):
            model.run(batch.inputs)


@contextmanager
def _taking(model: Model, batch: Batch, take: Callable[[Run, Rows], None]) -> Iterator[None]:
    edits: dict[LayerId, Any] = {}
    for run in census(model).runs:
        edits[run.id] = _Taking(run, batch, take)
    with applied(model, edits):
        yield


@dataclass(frozen=True, eq=False)
class _Taking:
    """An edit that changes nothing."""

    run: Run
    batch: Batch
    take: Callable[[Run, Rows], None]

    def __call__(self, scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        _, _, every = whole(self.run.layer.module, scores, v, z)
        self.take(self.run, real_rows(self.batch, self.run.id, every.detach()))
        return z


def real_rows(batch: Batch, id: LayerId, z: Float[Tensor, "batch head query v_dim"]) -> Rows:
    """The head outputs of queries that are no padding, one after the other."""
    length = z.shape[2]
    keep = [batch.side(id.stream, i, length, looks=True)[1] for i in range(batch.size)]
    rows: Tensor = z.transpose(1, 2)[torch.stack(keep).to(z.device)]
    return rows
