"""What a process holds of a model: parameters are DTensors, modules compute with this process's part.

`hold` puts parameters on a mesh. From then on `module.weight` is a DTensor to whoever asks, and within the module's
own forward it is the part that this process holds: a plain tensor, through which gradients reach the DTensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

__all__ = [
    "As",
    "beside",
    "gathered",
    "hold",
    "mesh_of",
    "mixed",
    "own",
    "plain_class",
    "shared",
    "summed",
    "within",
]

T = TypeVar("T", bound=nn.Module)
_AS = "_headwise_as"
_WITHIN = "_headwise_within"
_CLASSES: dict[tuple[str, tuple[type[nn.Module], ...]], type[nn.Module]] = {}


@dataclass(frozen=True)
class As:
    """How a module uses parameters that every process holds whole.

    Attributes:
        parts: each process computes something else with them, so that their gradients are summed.
        rows: which of their rows this process computes with; None = all.
    """

    parts: bool = False
    rows: slice | None = None


def hold(
    module: nn.Module,
    mesh: DeviceMesh,
    placements: Mapping[str, Placement],
    used: As = As(),
    *,
    source: int | None = 0,
) -> None:
    """Put a module's own parameters on a mesh; those that are not named are held whole by every process.

    Args:
        module: its parameters, without those of modules in it.
        mesh: of one dimension.
        placements: how to lay out which parameter.
        used: how the module uses those that are held whole.
        source: the process whose values all get; None = each its own, which must be the same.
    """
    named = {name: p for name, p in module._parameters.items() if p is not None}
    for name, parameter in named.items():
        placement = placements.get(name, Replicate())
        laid = distribute_tensor(parameter.detach(), mesh, [placement], src_data_rank=source)
        module._parameters[name] = nn.Parameter(laid, requires_grad=parameter.requires_grad)
    if named:
        module.__dict__[_AS] = used
        module.__class__ = _with_own(type(module), tuple(named))


def own(module: nn.Module, name: str) -> Tensor:
    """This process's part of a module's parameter: the rows or columns it computes with."""
    parameter = _plain(module._parameters[name])
    if not isinstance(parameter, DTensor):
        return parameter
    used: As = module.__dict__[_AS]
    part = _plain(parameter.to_local())
    if used.parts and parameter.placements[-1].is_replicate():
        part = shared(part, parameter.device_mesh)
    return part if used.rows is None else part[used.rows]


@contextmanager
def within(*modules: nn.Module, on: bool = True) -> Iterator[None]:
    """As within the modules' own forward: their parameters are this process's parts; with on=False, DTensors."""
    before = [module.__dict__.get(_WITHIN, False) for module in modules]
    try:
        for module in modules:
            module.__dict__[_WITHIN] = on
        yield
    finally:
        for module, was in zip(modules, before, strict=True):
            module.__dict__[_WITHIN] = was


def mixed(module: nn.Module, mixin: type[T]) -> T:
    """The module itself, from now on also of another class, whose methods come first."""
    module.__class__ = _class(mixin.__name__, (mixin, type(module)), {})
    assert isinstance(module, mixin)
    return module


def plain_class(module: nn.Module) -> type[nn.Module]:
    """The class that a module was made of, before it was split."""
    cls = type(module)
    while cls in _CLASSES.values():
        cls = cls.__bases__[-1]
    return cls


def mesh_of(module: nn.Module) -> DeviceMesh:
    """The mesh that a module's first parameter is on."""
    return next(p.device_mesh for p in module.parameters() if isinstance(p, DTensor))


def shared(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """x as it is, for parts of a computation: what the processes send back to it is summed."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x
    spread = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return _plain(spread.to_local(grad_placements=[Partial()]))


def summed(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """The sum of all processes' x, on each of them."""
    parts = DTensor.from_local(x, mesh, [Partial()], run_check=False)
    return _plain(parts.redistribute(placements=[Replicate()]).to_local())


def gathered(x: Tensor, mesh: DeviceMesh, size: int) -> Tensor:
    """All processes' x side by side along the last axis, `size` in all, on each of them."""
    return _plain(beside(x, mesh, size).full_tensor())


def beside(x: Tensor, mesh: DeviceMesh, size: int) -> DTensor:
    """All processes' x side by side along the last axis, `size` in all, each where it is."""
    shape = torch.Size((*x.shape[:-1], size))
    stride = torch.empty(shape, device="meta").stride()
    last = x.dim() - 1
    return DTensor.from_local(x, mesh, [Shard(last)], run_check=False, shape=shape, stride=stride)


def _plain(x: Any) -> Tensor:
    assert isinstance(x, Tensor)
    return x


def _class(what: str, bases: tuple[type[nn.Module], ...], body: dict[str, Any]) -> type[nn.Module]:
    """A class that goes by the name of the last of its bases, made once."""
    made = _CLASSES.get((what, bases))
    if made is None:
        body = {"__module__": bases[-1].__module__, **body}
        made = _CLASSES[what, bases] = type(bases[-1].__name__, bases, body)
    return made


def _with_own(cls: type[nn.Module], names: tuple[str, ...]) -> type[nn.Module]:
    """The class with a property for each parameter, which is this process's part within its forward."""
    plain: Any = cls.forward

    @wraps(plain)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with within(self):
            return plain(self, *args, **kwargs)

    def asked(self: nn.Module, name: str) -> Tensor | None:
        held = self._parameters[name]
        return held if held is None or not self.__dict__.get(_WITHIN) else own(self, name)

    properties = {name: property(partial(asked, name=name)) for name in names}
    return _class(" ".join(names), (cls,), {"forward": forward, **properties})
