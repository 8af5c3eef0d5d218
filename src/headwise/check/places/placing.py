"""Which axis of a tensor counts positions, told by its size.

Lengths are chosen so that nothing else in a model has them; then [batch, position, ...], [position, batch, ...],
[batch, head, position, ...], [batch * head, position, ...] and the flattened [batch * position, ...] are told apart
by their shapes alone. Every tensor is turned to [batch, position, rest]; scores and patterns, which count positions
twice, to [batch, query, key, rest].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

__all__ = ["leaves", "placed"]

_DEEP = 6
"""How far down lists, dicts and dataclasses are searched."""


def leaves(value: Any, place: str = "", depth: int = _DEEP) -> Iterator[tuple[str, Tensor]]:
    """The tensors in nested tuples, lists, dicts, ModelOutputs and dataclasses, each with its place."""
    if isinstance(value, Tensor):
        yield place, value
    elif depth > 0:
        for name, inner in _parts(value):
            yield from leaves(inner, f"{place}.{name}" if place else str(name), depth - 1)


def _parts(value: Any) -> list[tuple[object, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple | list):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return []


def placed(x: Tensor, length: int, batch: int) -> Shaped[Tensor, "batch position *rest"] | None:
    """A view of x as [batch, position, rest], or [batch, query, key, rest] where two axes count positions.

    Args:
        x: any tensor.
        length: positions.
        batch: rows.

    Returns:
        None where no axis counts positions, or the rows cannot be told.
    """
    if x.is_nested or x.layout is not torch.strided or x.dim() == 0:
        return None
    axes = [axis for axis, size in enumerate(x.shape) if size == length]
    if length == batch and len(axes) > 1 and axes[0] == 0:
        axes = axes[1:]  # a piece as long as the batch: the rows come first
    if not axes:
        together = x.shape[0] == batch * length or tuple(x.shape[:2]) == (1, batch * length)
        return x.reshape(batch, length, -1) if together else None
    query, keys = axes[0], axes[1] if len(axes) == 2 and length > 1 else None
    rows = _rows(x, query, batch)
    if rows is None and query > 0:
        return _split(x, length, batch)
    front = [axis for axis in (rows, query, keys) if axis is not None]
    moved = x.permute(*front, *(axis for axis in range(x.dim()) if axis not in front))
    if rows is None:
        moved = moved[None]
    moved = moved.expand(batch, *moved.shape[1:])
    wide = 2 if keys is None else 3
    return moved.flatten(wide) if moved.dim() > wide else moved[..., None]


def _rows(x: Tensor, query: int, batch: int) -> int | None:
    """The axis of the rows: of the batch's size before the positions or right behind them, or of size 1."""
    before = [axis for axis in range(query) if x.shape[axis] == batch]
    if before:
        return before[0]
    if query == 0 and x.dim() > 1 and x.shape[1] == batch:
        return 1
    return 0 if query > 0 and x.shape[0] == 1 else None


def _split(x: Tensor, length: int, batch: int) -> Tensor | None:
    """[batch * head, position, ...], told into its rows."""
    if x.shape[0] % batch or x.shape[0] == batch:
        return None
    return placed(x.unflatten(0, (batch, -1)), length, batch)
