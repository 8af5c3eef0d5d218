"""The output map of an attention layer, W_O: the linear map that reads the head outputs.

It is found by what it does and not by its name: while the model runs, the first linear module that is given exactly
the layer's head outputs. Where something lies between (a norm, a gate), the layer has none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.hub.shards import local_part

__all__ = [
    "OutputMap",
    "OutputWatch",
    "is_linear",
    "parameters_of",
    "reads_columns",
    "watching",
]

Found = Callable[["OutputMap"], None]


@dataclass(frozen=True, eq=False)
class OutputMap:
    """W_O of one layer: head h's result is z_h @ weight[h], and the layer adds their sum (and a bias).

    `path` is the module's in the model. The weight is the model's own, seen in another shape, except where it
    is kept elsewhere between uses (accelerate's offloading), which is copied.
    """

    path: str
    weight: Float[Tensor, "head v_dim d_model"]
    bias: Float[Tensor, " d_model"] | None = None

    @cached_property
    def gram(self) -> Float[Tensor, "head v_dim v_dim"]:
        """weight[h] @ weight[h].T in float32, with which norms of results cost no d_model: |r|^2 = z G z."""
        weight = self.weight.detach().float()
        product: Tensor = weight @ weight.transpose(1, 2)
        return product

    def measure(
        self,
        z: Float[Tensor, "batch query head_v_dim"],
        added: Float[Tensor, "batch query d_model"],
    ) -> Float[Tensor, "2 batch query head"]:
        """Squared length of each head's result r_h, and its product with the sum of all.

        Args:
            z: the head outputs, heads side by side.
            added: what the map made of them, its bias included.
        """
        heads, dim, width = self.weight.shape
        z, added = z.float(), added.float()
        if self.bias is not None:
            added = added - self.bias
        back = added @ self.weight.reshape(heads * dim, width).T.float()
        by_head = z.reshape(-1, heads, dim).transpose(0, 1)
        squares = (by_head @ self.gram * by_head).sum(-1).T.relu()  # a NaN stays one
        products = (z * back).unflatten(-1, (heads, dim)).sum(-1)
        return torch.stack([squares.view_as(products), products])


class OutputWatch:
    """Looks for the linear map that reads the head outputs last expected."""

    def __init__(self) -> None:
        self.waiting: tuple[Tensor, Found] | None = None
        self.known: dict[tuple[str, int], OutputMap] = {}

    def expect(self, z: Float[Tensor, "batch head query v_dim"], found: Found) -> None:
        """Call `found` with the next linear map that is given these head outputs, unless others come first."""
        self.waiting = (z.detach(), found)

    def see(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """A linear module is about to run."""
        if self.waiting is None or not inputs or not isinstance(inputs[0], Tensor):
            return
        z, found = self.waiting
        width = z.shape[1] * z.shape[3]
        came = local_part(inputs[0].detach(), -1, width)
        if came.numel() != z.numel() or came.shape[-1] != width or came.dtype != z.dtype:
            return
        flat = z.transpose(1, 2).flatten(2)
        first = [came.reshape(z.shape[0], -1, width)]
        if came.dim() == 3 and came.shape[:2] == (
            z.shape[2],
            z.shape[0],
        ):  # torch's, position first
            first.append(came.transpose(0, 1))
        if not any(_equal(x, flat) for x in first):
            return
        self.waiting = None
        made = self._map(path, module, z)
        if made is not None:
            found(made)

    def _map(self, path: str, module: nn.Module, z: Tensor) -> OutputMap | None:
        """The weight by heads; None where it is packed in a form of its own (quantised)."""
        heads, width = z.shape[1], z.shape[1] * z.shape[3]
        known = self.known.get((path, heads))
        if known is not None:
            return known
        weight, bias = parameters_of(module)
        if weight.dim() != 2 or not weight.is_floating_point() or weight.itemsize < 2:
            return None
        if weight.is_meta or (bias is not None and bias.is_meta):  # kept where it cannot be fetched
            return None
        reads = 0 if reads_columns(module) else 1
        weight = local_part(weight, reads, width)
        weight = weight if reads == 0 else weight.T
        if weight.shape[0] != width:
            return None
        bias = None if bias is None else local_part(bias, 0, weight.shape[1]).to(z.device)
        made = OutputMap(path, weight.unflatten(0, (heads, -1)).to(z.device), bias)
        self.known[(path, heads)] = made
        return made


@contextmanager
def watching(model: nn.Module) -> Iterator[OutputWatch]:
    """Watch the inputs of a model's linear modules for the time of the `with`."""
    watch = OutputWatch()
    handles = [
        module.register_forward_pre_hook(partial(_see, watch, path))
        for path, module in model.named_modules()
        if is_linear(module)
    ]
    try:
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def _see(watch: OutputWatch, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
    watch.see(path, module, inputs)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are the same; a NaN is like a NaN."""
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def is_linear(module: nn.Module) -> bool:
    """Whether it is a linear map of torch or transformers."""
    return isinstance(module, nn.Linear) or reads_columns(module)


def reads_columns(module: nn.Module) -> bool:
    """Whether it is transformers' Conv1D, a linear map whose weight is kept as [in, out]."""
    home = sys.modules.get("transformers.pytorch_utils")
    return home is not None and isinstance(module, home.Conv1D)


def parameters_of(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """The module's weight and bias, fetched (copies) where accelerate keeps them elsewhere between uses."""
    weight, bias = cast(Tensor, module.weight), cast("Tensor | None", module.bias)
    if not weight.is_meta:
        return weight.detach(), None if bias is None else bias.detach()
    from accelerate.utils import align_module_device

    with align_module_device(module):
        weight, bias = cast(Tensor, module.weight), cast("Tensor | None", module.bias)
        return weight.detach().clone(), None if bias is None else bias.detach().clone()
