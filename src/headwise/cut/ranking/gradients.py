"""What a loss answers to a gate at every head: one forward and one backward for all heads.

At each head stands a gate g = 1 between the head and what stands in for it, as r + g (z - r) with z the head's
output before W_O and r = 0 or its mean; dL/dg = <z - r, dL/dz> (Michel et al. 2019, equation 3, for r = 0). It is
taken for each row of a batch, or for each query of each row. The parameters need no gradients for it, so it costs
less than a training step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core.attention import Edit
from headwise.core.scores import Scores
from headwise.cut.ablating.applying import applied
from headwise.cut.ablating.standing_in import StandIn, constant
from headwise.cut.census import Run, census
from headwise.cut.losses import LossFunction, losses_of
from headwise.hub.load import Model
from headwise.hub.shards import Shard, local_gate, shard_of
from headwise.names import ConfigError, LayerId, ModelError, ShapeError
from headwise.see.texts.batches import Batch

__all__ = [
    "Gradients",
    "Means",
    "Per",
    "between",
    "check_per",
    "each_gradient",
    "gradients_of",
    "still",
]

Per = Literal["row", "token"]

Means = Mapping[LayerId, Float[Tensor, "head v_dim"]]
"""What stands in for each head of each run (`ablating.gathering.mean_outputs`)."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """What the loss of each row of a batch answers to the gates.

    Attributes:
        batch: that was run.
        losses: the sum of each row's losses, in nats for the next token.
        counts: how many losses that is.
        gates: for each run of a layer the derivative of each row's summed loss by its heads' gates, in float32,
            heads in the order of `Run.heads`: [row, head], or [row, head, query] per token.
    """

    batch: Batch
    losses: Float[Tensor, " row"]
    counts: Int[Tensor, " row"]
    gates: Mapping[LayerId, Float[Tensor, "row head *query"]]


def each_gradient(
    model: Model,
    batches: Iterable[Batch],
    *,
    loss: LossFunction | None = None,
    means: Means | None = None,
    per: Per = "row",
    training: bool = False,
) -> Iterator[Gradients]:
    """The gradients of every batch in turn.

    Args:
        model: from `load`; its parameters get no gradients, and are as they were afterwards.
        batches: from `batches_in`.
        loss: a function of the model's output and inputs; None = of the next token.
        means: what stands in for each head; None = zero.
        per: one gate for each head in each row, or one for each query of it.
        training: in training mode, with the model's dropout.

    Raises:
        ModelError: a model that predicts no next token and no loss given; a loss that does not depend on the heads.
        ShapeError: a loss of another shape than [], [batch] or [batch, position].
    """
    check_per(per)
    for batch in batches:
        yield gradients_of(model, batch, loss=loss, means=means, per=per, training=training)


def gradients_of(
    model: Model,
    batch: Batch,
    *,
    loss: LossFunction | None = None,
    means: Means | None = None,
    per: Per = "row",
    training: bool = False,
) -> Gradients:
    """The gradients of one batch; arguments and errors as in `each_gradient`."""
    gates = _Gates(means, per)
    with still(model.module, training), torch.inference_mode(False):  # which turns gradients on
        with applied(model, {run.id: gates.edit(run) for run in census(model).runs}):
            losses = losses_of(model, batch, loss)
        total, leaves = losses.total, gates.leaves
        if not total.requires_grad:
            raise ModelError(
                f"the loss of {model.name} does not depend on its heads: it has no gradient; a loss of one's own "
                "must be computed from the output with torch, without detach() or no_grad()"
            )
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    if all(grad is None for grad in found):
        raise ModelError(
            f"the loss of {model.name} does not depend on its heads where they ran: no gate has a gradient; "
            "compute it from the output of the pass itself, without checkpoints of its own"
        )
    rows = len(losses.counts)
    held = {}
    for (id, leaf), grad in zip(leaves.items(), found, strict=True):
        every = gates.of_all(id, torch.zeros_like(leaf) if grad is None else grad)
        held[id] = _by_row(every, rows, id)
    if per == "row":
        held = {id: x.squeeze(-1) for id, x in held.items()}
    return Gradients(batch, losses.of_rows.detach(), losses.counts, held)


def check_per(per: str) -> None:
    """Refuse what is neither a row nor a token.

    Raises:
        ConfigError: it is neither.
    """
    if per not in get_args(Per):
        raise ConfigError(f'per={per!r} is not known; use "row" or "token"')


@contextmanager
def still(module: nn.Module, training: bool = False) -> Iterator[None]:
    """In eval mode (or training mode) and with no parameter that needs gradients, for the time of the `with`."""
    with ExitStack() as stack:
        for part in module.modules():
            stack.callback(setattr, part, "training", part.training)
        for parameter in module.parameters():
            if parameter.requires_grad:
                stack.callback(parameter.requires_grad_, True)
                parameter.requires_grad_(False)
        module.train(training)
        yield


class _Gates:
    """A leaf of ones at every head of every run, made as the run comes."""

    def __init__(self, means: Means | None, per: Per) -> None:
        self.leaves: dict[LayerId, Tensor] = {}
        self._shards: dict[LayerId, Shard] = {}
        self._means, self._per = means, per

    def edit(self, run: Run) -> Edit:
        """The edit that puts the gates of this run on."""
        stand_in = None if self._means is None else constant(run.layer.module, self._means[run.id])

        def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
            if run.id not in self.leaves:  # else it attends in two parts, which one gate is for
                queries = z.shape[2] if self._per == "token" else 1
                leaf = torch.ones(z.shape[0], len(run.heads), queries, device=z.device)
                self.leaves[run.id] = leaf.requires_grad_()
                shard = shard_of(run.layer.module, z.shape[1])
                if shard is not None:
                    self._shards[run.id] = shard
            return between(run.layer.module, scores, v, z, self.leaves[run.id], stand_in)

        return edit

    def of_all(self, id: LayerId, grad: Tensor) -> Tensor:
        """The gradients of a layer's heads in all processes that share them, of which each has its own."""
        shard = self._shards.get(id)
        if shard is None:
            return grad
        own = shard.global_heads(grad.shape[1] // shard.size)
        return shard.gather(grad[:, own.start : own.stop])


def between(
    module: nn.Module,
    scores: Scores,
    v: Tensor,
    z: Float[Tensor, "batch head query v_dim"],
    gate: Float[Tensor, "batch every_head #query"],
    stand_in: StandIn | None,
) -> Float[Tensor, "batch head query v_dim"]:
    """r + gate (z - r), which is z itself at 1; of heads split over processes those of this one."""
    own = local_gate(module, gate, z.shape[1])
    assert own is not None
    own = own[..., None].to(z.dtype)
    if stand_in is None:
        return z * own
    r = stand_in(scores, v, z).to(z.dtype).expand_as(z)
    return torch.lerp(r, z, own.expand_as(z))


def _by_row(
    x: Float[Tensor, "batch head query"], rows: int, id: LayerId
) -> Float[Tensor, "row head query"]:
    """Gradients by the rows of the loss: of sequences that a row is cut into (windows of an image) the sum."""
    if x.shape[0] == rows:
        return x
    if x.shape[0] % rows:
        raise ShapeError(
            f"the loss has {rows} rows and layer {id} attends in {x.shape[0]} sequences; give a loss [] or [batch]"
        )
    windows: Tensor = x.unflatten(0, (rows, -1))
    return windows.sum(1)
