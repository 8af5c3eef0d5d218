"""Which places of a layer's tensors go with which head, told by gradients.

A row of a weight is a head's if that head's queries (keys, values, ...) change with it and no other head's do. With
2 log2(heads) backward passes every head has its own pattern of passes in which it takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.hub.outputs import is_linear, reads_columns

__all__ = ["Own", "Part"]


@dataclass(frozen=True, eq=False)
class Part:
    """What of one tensor is whose: its name in the state dict, the axis, and the places of each head."""

    name: str
    axis: int
    places: Mapping[int, Tensor]
    matrix: bool


class Own:
    """The parameters of one attention module.

    Args:
        path: of the module in the model.
        module: the module; its parameters must ask for gradients.
    """

    def __init__(self, path: str, module: nn.Module) -> None:
        self.path = path
        self.module = module
        self.names = [name for name, p in module.named_parameters() if p.is_floating_point()]
        self.parameters = [module.get_parameter(name) for name in self.names]

    def parts(self, x: Tensor, axis: int) -> list[Part]:
        """The tensors of which each head along an axis of x has places of its own.

        Args:
            x: made of the parameters, with gradients.
            axis: which of its axes counts heads.
        """
        heads = x.shape[axis]
        touched = self._touched(x, axis)
        found = []
        for name, parameter, passes in zip(self.names, self.parameters, touched, strict=True):
            if not passes:
                continue
            owner = self.module.get_submodule(name.rpartition(".")[0])
            if heads == 1 and parameter.dim() == 1 and not _is_map(owner):
                continue  # a norm of each head, the same for all, with one head looks like that head's
            for at in _axes(owner, parameter):
                units = _units(passes, at, heads)
                if units:
                    whole = f"{self.path}.{name}".lstrip(".")
                    found.append(Part(whole, at, units, parameter.dim() > 1))
                    break
        return found

    def shared(self, x: Tensor, axis: int) -> list[str]:
        """The matrices on which every head along an axis of x depends alike."""
        touched = self._touched(x, axis)
        return [
            name
            for name, parameter, passes in zip(self.names, self.parameters, touched, strict=True)
            if parameter.dim() > 1 and passes and all(bool(p.any()) for p in passes)
        ]

    def _touched(self, x: Tensor, axis: int) -> list[list[Tensor]]:
        """For each parameter whether its places take part in each pass; [] for one that does in none."""
        if not x.requires_grad:
            return [[] for _ in self.parameters]
        draw = torch.Generator().manual_seed(0)
        weights = torch.randn(x.shape, generator=draw).to(x)
        passes: list[list[Tensor]] = [[] for _ in self.parameters]
        for mask in _masks(x.shape[axis]):
            shape = [-1 if i == axis else 1 for i in range(x.dim())]
            wanted = (x * weights * mask.to(x).view(shape)).sum()
            gradients = torch.autograd.grad(
                wanted, self.parameters, retain_graph=True, allow_unused=True
            )
            for held, gradient in zip(passes, gradients, strict=True):
                if gradient is not None:
                    held.append(gradient != 0)
        return passes


def _masks(heads: int) -> Iterator[Tensor]:
    """For each bit of the heads' numbers, the heads that have it, and those that do not."""
    numbers = torch.arange(heads)
    for bit in range(max(1, (heads - 1).bit_length())):
        has = (numbers >> bit) % 2 == 1
        yield has
        yield ~has


def _units(passes: list[Tensor], axis: int, heads: int) -> dict[int, Tensor]:
    """The places along an axis by head; {} where none is one head's alone."""
    others = [i for i in range(passes[0].dim()) if i != axis]
    rows = torch.stack([p.any(others) if others else p for p in passes])  # [pass, place]
    has, lacks = rows[::2], rows[1::2]
    alone = (has ^ lacks).all(0)
    bits = 1 << torch.arange(len(has), device=has.device)
    numbers = (has * bits[:, None]).sum(0)
    found = {h: (alone & (numbers == h)).nonzero()[:, 0].cpu() for h in range(heads)}
    return found if any(len(places) for places in found.values()) else {}


def _axes(owner: nn.Module, parameter: Tensor) -> list[int]:
    """The axes of a parameter, the one of what a map gives first."""
    axes = list(range(parameter.dim()))
    return axes[::-1] if reads_columns(owner) else axes


def _is_map(owner: nn.Module) -> bool:
    return is_linear(owner) or isinstance(owner, nn.MultiheadAttention)
