"""Calls: what the linear maps, norms and embeddings of a model were given and made in one short pass.

The ground on which weights are found by what they do: whatever a module is named, its call says what it reads and
what it makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.hub.outputs import is_linear, parameters_of, reads_columns
from headwise.hub.shards import local_part

__all__ = ["Call", "Calls", "LinearCall", "Norm", "listening", "norm_of", "same"]

_UNIT = 0.02
"""How far the length of a normed vector may be from 1: its norm adds an epsilon."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module: what it was given, and what it made."""

    path: str
    module: nn.Module
    given: Tensor
    made: Tensor


@dataclass(frozen=True, eq=False)
class LinearCall:
    """A linear map that was, or could have been, applied: made = given @ weight + bias."""

    path: str
    given: Tensor
    made: Tensor
    weight: Float[Tensor, "d_in d_out"]
    bias: Float[Tensor, " d_out"] | None


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm's part that is the same for every token: its gain, and whether it takes the mean away."""

    path: str
    gain: Float[Tensor, " d_model"]
    centred: bool

    def before(
        self, weight: Float[Tensor, "*head d_model dim"]
    ) -> Float[Tensor, "*head d_model dim"]:
        """The weight of a map that reads the normed stream, folded so that it reads the stream itself."""
        folded = self.gain[:, None].to(weight.dtype) * weight
        return folded - folded.mean(-2, keepdim=True) if self.centred else folded

    def after(
        self, weight: Float[Tensor, "*head dim d_model"]
    ) -> Float[Tensor, "*head dim d_model"]:
        """The weight of a map whose output goes through the norm, folded so that it writes what comes out."""
        moved = weight - weight.mean(-1, keepdim=True) if self.centred else weight
        return moved * self.gain.to(weight.dtype)


@dataclass(eq=False)
class Calls:
    """The calls of one pass, in order."""

    linear: list[Call] = field(default_factory=list)
    norms: list[Call] = field(default_factory=list)
    embeddings: list[Call] = field(default_factory=list)
    inputs: dict[nn.Module, list[Tensor]] = field(default_factory=dict)
    """What modules one listens to were given last."""

    def maps(self, since: int = 0) -> Iterator[LinearCall]:
        """The linear maps that ran from the `since`-th call on, the latest first."""
        for call in reversed(self.linear[since:]):
            made = linear_call(call.path, call.module, call.given, call.made)
            if made is not None:
                yield made

    def not_called(self, path: str, module: nn.Module) -> Iterator[LinearCall]:
        """The linear maps of an attention module that it applied to its inputs by hand, as torch's own does."""
        ran = {id(call.module) for call in self.linear}
        for given in self.inputs.get(module, []):
            for name, part in module.named_modules():
                if not is_linear(part) or id(part) in ran:
                    continue
                made = linear_call(f"{path}.{name}".lstrip("."), part, given, None)
                if made is not None:
                    yield made
            yield from _own_matrices(path, module, given)

    def norm_before(self, given: Tensor) -> Norm | None:
        """The norm that made this tensor (or whose last positions it is); None where none is found."""
        for call in reversed(self.norms):
            if same(call.made, given) or same(call.made[:, -given.shape[1] :], given):
                return norm_of(call)
        return None

    def norm_after(self, path: str) -> Norm | None:
        """The norm that reads exactly what the last call of a linear map made; None where there is none."""
        made = next((call.made for call in reversed(self.linear) if call.path == path), None)
        found = (call for call in self.norms if made is not None and same(call.given, made))
        call = next(found, None)
        return None if call is None else norm_of(call)


@contextmanager
def listening(model: nn.Module, inputs_of: list[nn.Module]) -> Iterator[Calls]:
    """Keep the calls of a model's linear maps, norms and embeddings, and the inputs of some modules."""
    calls, handles = Calls(), []
    for path, module in model.named_modules():
        kept = _list_for(calls, module)
        if kept is not None:
            handles.append(module.register_forward_hook(partial(_keep, kept, path)))
    for module in inputs_of:
        hook = partial(_keep_inputs, calls)
        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers."""
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def norm_of(call: Call) -> Norm | None:
    """What a call did as a norm: (made - bias) / gain has length 1 per channel; None where it has not."""
    weight = call.module.weight
    bias = getattr(call.module, "bias", None)
    assert isinstance(weight, Tensor)
    made = call.made.detach().float().reshape(-1, weight.numel())
    made = made if bias is None else made - bias.detach().float()
    for gain in (weight.detach().float(), 1 + weight.detach().float()):
        live = gain.abs() > 1e-6
        if not bool(live.any()):
            continue
        unit = made[:, live] / gain[live]
        squares = unit.square().mean(-1)
        if bool(((squares - 1).abs() < _UNIT).all()):
            centred = bool((unit.mean(-1).abs() < 1e-3).all()) and bool(live.all())
            return Norm(call.path, gain, centred)
    return None


def _list_for(calls: Calls, module: nn.Module) -> list[Call] | None:
    if is_linear(module):
        return calls.linear
    if isinstance(module, nn.Embedding):
        return calls.embeddings
    weight = module._parameters.get("weight")
    return calls.norms if weight is not None and weight.dim() == 1 else None


def _keep(
    kept: list[Call], path: str, module: nn.Module, inputs: tuple[Any, ...], made: Any
) -> None:
    if inputs and isinstance(inputs[0], Tensor) and isinstance(made, Tensor):
        kept.append(Call(path, module, inputs[0].detach(), made.detach()))


def _keep_inputs(
    calls: Calls, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
) -> None:
    given = [x for x in (*inputs, *named.values()) if isinstance(x, Tensor)]
    given = [x.detach() for x in given if x.is_floating_point() and x.dim() in (2, 3)]
    calls.inputs[module] = [x for i, x in enumerate(given) if all(x is not y for y in given[:i])]


def linear_call(
    path: str, module: nn.Module, given: Tensor, made: Tensor | None
) -> LinearCall | None:
    """A linear module's call with its weight; None where that is packed in a form of its own (quantised)."""
    weight, bias = parameters_of(module)
    if weight.dim() != 2 or not weight.is_floating_point() or weight.itemsize < 2:
        return None
    reads = 0 if reads_columns(module) else 1
    weight = local_part(weight, reads, given.shape[-1])
    weight = weight if reads == 0 else weight.T
    return _applied(path, given, made, weight, bias)


def _own_matrices(path: str, module: nn.Module, given: Tensor) -> Iterator[LinearCall]:
    """Matrices a module holds itself, each with the one bias among its own that fits."""
    own = {name: p.detach() for name, p in module._parameters.items() if p is not None}
    for name, matrix in own.items():
        if matrix.dim() != 2:
            continue
        fits = [p for p in own.values() if p.dim() == 1 and len(p) == len(matrix)]
        bias = fits[0] if len(fits) == 1 else None
        made = _applied(f"{path}.{name}".lstrip("."), given, None, matrix.T, bias)
        if made is not None:
            yield made


def _applied(
    path: str, given: Tensor, made: Tensor | None, weight: Tensor, bias: Tensor | None
) -> LinearCall | None:
    if weight.shape[0] != given.shape[-1] or weight.dtype != given.dtype:
        return None
    if made is None:
        made = given @ weight if bias is None else given @ weight + bias
    if made.shape[-1] != weight.shape[1]:
        return None
    return LinearCall(path, given, made, weight, bias)
