"""Linear maps of which each process holds some rows or some columns."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard

from headwise.nn.parallel.own import hold, mesh_of, mixed, own, summed

__all__ = ["Packed", "SummedLinear", "by_columns", "by_rows", "unpacked"]

_ROWS = {"weight": Shard(0), "bias": Shard(0)}


class Packed(nn.Module):
    """A packed projection taken apart, so that each part can be split over processes by itself.

    To who calls it, it is the nn.Linear of this process's rows: those of the first part, then of the next.
    """

    def __init__(self, parts: Mapping[str, nn.Linear]) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Float[Tensor, "*batch into"]) -> Float[Tensor, "*batch out"]:
        """What this process's rows make of x."""
        tokens = x.numel() // x.shape[-1]
        if tokens < x.shape[-1]:  # then what comes out is less to put together than the weights
            return torch.cat([part(x) for part in self._parts()], -1)
        return F.linear(x, self.weight, self.bias)

    @property
    def weight(self) -> Float[Tensor, "out into"]:
        """This process's rows."""
        return torch.cat([own(part, "weight") for part in self._parts()])

    @property
    def bias(self) -> Float[Tensor, " out"] | None:
        """Of this process's rows; None where the projection has none."""
        parts = self._parts()
        if parts[0].bias is None:
            return None
        return torch.cat([own(part, "bias") for part in parts])

    def _parts(self) -> list[nn.Linear]:
        return [part for part in self.children() if isinstance(part, nn.Linear)]


def unpacked(linear: nn.Linear, rows: Mapping[str, int]) -> dict[str, nn.Linear]:
    """The parts of a packed projection, by so many rows each."""
    sizes = list(rows.values())
    weights = linear.weight.detach().split(sizes)
    biases = [None] * len(sizes) if linear.bias is None else linear.bias.detach().split(sizes)
    parts: dict[str, nn.Linear] = {}
    for name, weight, bias in zip(rows, weights, biases, strict=True):
        part = nn.Linear(weight.shape[1], len(weight), bias=bias is not None, device="meta")
        part.weight = nn.Parameter(weight, requires_grad=linear.weight.requires_grad)
        if bias is not None:
            part.bias = nn.Parameter(bias, requires_grad=linear.bias.requires_grad)
        parts[name] = part
    return parts


def by_rows(linear: nn.Module, mesh: DeviceMesh, source: int | None) -> None:
    """Each process makes some channels of what comes out."""
    hold(linear, mesh, _ROWS, source=source)


def by_columns(linear: nn.Module, mesh: DeviceMesh, source: int | None) -> None:
    """Each process reads some channels of what comes in; their sum comes out."""
    hold(linear, mesh, {"weight": Shard(1)}, source=source)
    mixed(linear, SummedLinear)


class SummedLinear(nn.Linear):
    """A linear map of which each process holds some columns, and all the bias."""

    def forward(self, x: Float[Tensor, "*batch own"]) -> Float[Tensor, "*batch out"]:
        """What all processes' columns make of their channels."""
        out = summed(F.linear(x, own(self, "weight")), mesh_of(self))
        return out if self.bias is None else out + own(self, "bias")
