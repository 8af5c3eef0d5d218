"""W_O refitted on texts, so that the heads that stay give back what those that are cut added.

The outputs of heads are correlated, so part of what a cut head adds can be told from the heads that stay: by ridge
regression of what the layer added on the outputs of the heads it keeps and a constant. Only sums of products of the
head outputs are kept, in float64, never the outputs themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.gathering import each_output
from headwise.cut.census import Run
from headwise.cut.pruning.folding import losing, map_of, output_maps
from headwise.cut.pruning.outputs import NewOutput
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId, LayerId, TextError
from headwise.see.texts.batches import Batch

__all__ = ["RIDGE", "Products", "refitted"]

RIDGE = 1e-2
"""The ridge, as a share of the mean square of the head outputs."""


@dataclass(eq=False)
class Products:
    """The sum over tokens of x x^T, with x the outputs of a layer's heads, side by side, and a 1.

    Attributes:
        sums: in float64; the last row and column are the constant's.
        tokens: of how many.
    """

    sums: Float[Tensor, "channels_1 channels_1"]
    tokens: int = 0

    @classmethod
    def none(cls, channels: int) -> Products:
        """Of no token yet."""
        return cls(torch.zeros(channels + 1, channels + 1, dtype=torch.float64))

    def add(self, outputs: Float[Tensor, "token channels"]) -> None:
        """Take in some tokens."""
        x = torch.cat([outputs, outputs.new_ones(len(outputs), 1)], 1)
        for part in x.split(256):  # products of few rows in float32, their sums in float64
            self.sums += (part.T @ part).double().to(self.sums.device)
        self.tokens += len(outputs)

    def told(
        self, wanted: Sequence[int], known: Sequence[int], ridge: float
    ) -> Float[Tensor, "known_1 wanted"]:
        """The weights with which channels are told from others and a constant (the last row), by ridge regression.

        Args:
            wanted: the channels that are told.
            known: those they are told from.
            ridge: as a share of the mean square of a channel; the constant bears none.
        """
        at = [*known, len(self.sums) - 1]
        left = self.sums[at][:, at].clone()
        mean = self.sums.diagonal()[:-1].mean()
        left.diagonal()[:-1] += (ridge + torch.finfo(torch.float64).eps) * mean
        told: Tensor = torch.linalg.solve(left, self.sums[at][:, list(wanted)])
        return told


def refitted(
    model: Model,
    heads: Iterable[HeadId],
    batches: Iterable[Batch],
    *,
    ridge: float = RIDGE,
) -> dict[LayerId, NewOutput]:
    """New output maps that add what the layers added before, as nearly as the heads that stay can tell.

    Args:
        model: from `load`, before the cut.
        heads: those that will be cut; with none, nothing is new.
        batches: of the texts, from `batches_in`.
        ridge: how strongly the change is held back, as a share of the mean square of the head outputs.

    Raises:
        ConfigError: a ridge below 0.
        TextError: no token.
        ModelError: a layer without a linear map that reads its head outputs.
    """
    if not ridge >= 0:
        raise ConfigError(f"ridge must be at least 0, came {ridge!r}")
    layers = losing(model, heads)
    maps = output_maps(model)
    outputs = {run.id: map_of(maps, run, model) for layer in layers for run in layer.runs}
    products: dict[LayerId, Products] = {}
    for layer in layers:
        shared = Products.none(outputs[layer.runs[0].id].weight[..., 0].numel())
        products |= {run.id: shared for run in layer.runs}

    def take(run: Run, rows: Tensor) -> None:
        if run.id in products:
            products[run.id].add(rows.float().flatten(1))

    if layers:
        each_output(model, iter(batches), take)
    found: dict[LayerId, NewOutput] = {}
    for layer in layers:
        first = layer.runs[0].id
        if not products[first].tokens:
            raise TextError("there is no token to refit on; give texts")
        new = _new(products[first], outputs[first].weight, layer.gone, layer.kept, ridge)
        found |= {run.id: new for run in layer.runs}
    return found


def _new(
    products: Products,
    weight: Float[Tensor, "head v_dim d_model"],
    gone: Sequence[int],
    kept: Sequence[int],
    ridge: float,
) -> NewOutput:
    """W_O with what can be told of the heads that go added to the heads that stay, and to the bias."""
    v_dim = weight.shape[1]
    told = products.told(_channels(gone, v_dim), _channels(kept, v_dim), ridge)
    new = weight.cpu().double().clone()  # not every device has float64
    added = told @ new[list(gone)].flatten(0, 1)
    new[list(kept)] += added[:-1].reshape(len(kept), *weight.shape[1:])
    return NewOutput(new.to(weight), added[-1].to(weight))


def _channels(heads: Sequence[int], v_dim: int) -> list[int]:
    """Where the outputs of heads are, side by side."""
    return [head * v_dim + i for head in heads for i in range(v_dim)]
