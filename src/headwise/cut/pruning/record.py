"""What was cut of a model, as data: which heads each layer kept, and what that made of tensors and numbers.

A model that was cut is one built from its config with its `Cut` applied, whatever its weights: cutting, saving and
loading share this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.cut.pruning.counting import counts_something
from headwise.hub.kept import Kept, keep
from headwise.hub.routes.pruned import EMPTY_WIDTH, SELECTS, emptied, fit, settle
from headwise.names import ConfigError

__all__ = ["Cut", "apply_cut", "cut_of"]

_NAME = "_headwise_cut"

_FURTHER = (EMPTY_WIDTH, SELECTS, "use_nested_tensor")
"""Attributes that a cut sets beside those that count heads."""

_MOST = 2**24
"""No number and no size that a cut leaves is as large."""


@dataclass(frozen=True)
class Cut:
    """All that makes a model that was cut differ from what its config says.

    Attributes:
        kept: path of each attention module that was cut -> what it kept, in the ids the heads had at first.
        shapes: name in the state dict -> shape, of each tensor that is not as the config says (or not in it: biases
            that were added).
        numbers: path of a module -> attribute -> the number it has now; an attribute `config.x` is of the config
            that this module gets for itself.
    """

    kept: Mapping[str, Kept]
    shapes: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, Mapping[str, int]]

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "kept": {path: asdict(kept) for path, kept in self.kept.items()},
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "numbers": {path: dict(numbers) for path, numbers in self.numbers.items()},
        }

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> Cut:
        """From what `as_dict` gave.

        Raises:
            ConfigError: it is of another form.
        """
        try:
            return cls(
                {path: _kept(kept) for path, kept in held["kept"].items()},
                {name: tuple(map(_number, shape)) for name, shape in held["shapes"].items()},
                {path: _numbers(numbers) for path, numbers in held["numbers"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"what was cut of this model cannot be read ({type(error).__name__}: {error}); save it anew"
            ) from None

    def then(self, later: Cut) -> Cut:
        """Both cuts as one, of which the later holds the last word."""
        numbers = {path: dict(numbers) for path, numbers in self.numbers.items()}
        for path, new in later.numbers.items():
            numbers[path] = {**numbers.get(path, {}), **new}
        return Cut({**self.kept, **later.kept}, {**self.shapes, **later.shapes}, numbers)


def cut_of(module: nn.Module) -> Cut | None:
    """What was cut of a model so far; None = nothing. A copy of the module has it too."""
    return module.__dict__.get(_NAME)


def mark(module: nn.Module, cut: Cut | None) -> None:
    """Write on a model what was cut of it."""
    if cut is None:
        module.__dict__.pop(_NAME, None)
    else:
        module.__dict__[_NAME] = cut


def apply_cut(module: nn.Module, cut: Cut) -> None:
    """Give a model the shapes, the numbers and the workings of one that was cut; its weights come after.

    Tensors that change are zeros of their new shape, on meta where the model is there.

    Args:
        module: as its config builds it, or one that an earlier part of this cut was applied to.
        cut: what was cut.

    Raises:
        ConfigError: the cut names a module or a tensor that this model has not.
    """
    for name, shape in cut.shapes.items():
        _reshape(module, name, shape)
    for path, kept in cut.kept.items():
        keep(_part(module, path), kept)
    for path, numbers in cut.numbers.items():
        if EMPTY_WIDTH in numbers:
            emptied(module, path, numbers[EMPTY_WIDTH])
    for path in cut.kept:
        settle(_part(module, path), cut.numbers.get(path, {}))
    for path, numbers in cut.numbers.items():
        _set_numbers(_part(module, path), numbers)
    mark(module, cut)


def _kept(held: Mapping[str, Any]) -> Kept:
    lists = {name: tuple(map(int, held[name])) for name in ("heads", "groups", "kv_heads")}
    counts = {name: _number(held[name]) for name in ("num_heads", "num_kv_heads")}
    kept = Kept(**lists, **counts)  # type: ignore[arg-type]
    for ids, total in ((kept.heads, kept.num_heads), (kept.kv_heads, kept.num_kv_heads)):
        if len({id for id in ids if 0 <= id < total}) != len(ids):
            raise ValueError(f"the ids {list(ids)} of {total} heads")
    if len(kept.groups) != len(kept.kv_heads) or min(kept.groups, default=1) < 1:
        raise ValueError(f"groups {list(kept.groups)} of {len(kept.kv_heads)} KV heads")
    if sum(kept.groups) != len(kept.heads):
        raise ValueError(f"groups {list(kept.groups)} of {len(kept.heads)} heads")
    return kept


def _numbers(held: Mapping[str, Any]) -> dict[str, int]:
    unknown = [name for name in held if name not in _FURTHER and not counts_something(name)]
    if unknown:
        raise ValueError(f"no cut changes {unknown[0]!r}")
    return {name: _number(number) for name, number in held.items()}


def _number(held: Any) -> int:
    number = int(held)
    if not 0 <= number < _MOST:
        raise ValueError(f"the number {number}")
    return number


def _part(module: nn.Module, path: str) -> nn.Module:
    try:
        return module.get_submodule(path)
    except AttributeError:
        raise ConfigError(
            f"{type(module).__name__} has no module {path!r}, of which the cut speaks; it is of another model"
        ) from None


def _reshape(module: nn.Module, name: str, shape: tuple[int, ...]) -> None:
    """Zeros of this shape in the place of a tensor, wherever the model holds it."""
    path, _, leaf = name.rpartition(".")
    owner = _part(module, path)
    old: Tensor | None = owner._parameters.get(leaf)
    old = owner._buffers.get(leaf) if old is None else old
    if old is not None and tuple(old.shape) == shape:
        return
    like = old if old is not None else getattr(owner, "weight", None)
    if not isinstance(like, Tensor) or (old is None and leaf not in owner._parameters):
        raise ConfigError(
            f"{type(module).__name__} has no tensor {name!r}, of which the cut speaks; it is of another model"
        )
    put(module, name, torch.zeros(shape, dtype=like.dtype, device=like.device))


def put(module: nn.Module, name: str, value: Tensor) -> None:
    """Put a tensor in the place of another, wherever the model holds that one."""
    path, _, leaf = name.rpartition(".")
    owner = _part(module, path)
    if leaf in owner._buffers:
        owner._buffers[leaf] = value
        return
    old = owner._parameters[leaf]
    like = old if old is not None else getattr(owner, "weight", None)
    trains = like.requires_grad if isinstance(like, Tensor) else True
    new = nn.Parameter(value, requires_grad=trains)
    owner._parameters[leaf] = new
    fit(owner)
    for part in module.modules() if old is not None else ():
        for own, parameter in part._parameters.items():
            if parameter is old:
                part._parameters[own] = new
                fit(part)


def _set_numbers(part: nn.Module, numbers: Mapping[str, int]) -> None:
    for name, number in numbers.items():
        home, _, attribute = name.rpartition(".")
        owner = part if not home else getattr(part, home)
        now = getattr(owner, attribute, None)
        setattr(owner, attribute, bool(number) if isinstance(now, bool) else number)
