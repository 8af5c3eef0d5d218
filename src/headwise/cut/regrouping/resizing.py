"""Fewer key/value heads for real: smaller matrices, and the numbers that say how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.cut.regrouping.maps import KV_HEADS, PER_KV_HEAD, HeadRows, LayerMaps
from headwise.hub.load import Model
from headwise.hub.outputs import reads_columns
from headwise.nn import MultiHeadAttention

__all__ = ["resize"]


def resize(model: Model, layers: Sequence[LayerMaps], num_kv_heads: int) -> None:
    """Drop the rows of all KV heads but the first ones of each layer, and set the numbers.

    Args:
        model: whose module changes.
        layers: its maps, which no longer hold after this.
        num_kv_heads: how many stay.
    """
    for maps in layers:
        dropped: dict[nn.Module, list[int]] = {}
        for rows in (maps.k, maps.v):
            dropped.setdefault(rows.module, []).extend(_beyond(rows, num_kv_heads))
        for module, places in dropped.items():
            _drop(module, places)
        _say(maps.layer.module, maps.q.heads, maps.k.heads, num_kv_heads)
    for module in model.module.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "_attn_implementation"):
            for maps in layers[:1]:
                _say(config, maps.q.heads, maps.k.heads, num_kv_heads)


def _beyond(rows: HeadRows, heads: int) -> range:
    return range(rows.first + heads * rows.dim, rows.rows.stop)


def _drop(module: nn.Module, places: list[int]) -> None:
    """Take rows out of a linear module."""
    out = set(places)
    for name, axis in (("weight", 1 if reads_columns(module) else 0), ("bias", 0)):
        held = module._parameters.get(name)
        if held is None:
            continue
        keep = torch.tensor([i for i in range(held.shape[axis]) if i not in out])
        new: Tensor = held.detach().index_select(axis, keep.to(held.device))
        setattr(module, name, nn.Parameter(new, requires_grad=held.requires_grad))
    for size in ("out_features", "nf"):
        if size in module.__dict__:
            setattr(module, size, getattr(module, size) - len(out))


def _say(home: Any, heads: int, before: int, after: int) -> None:
    """Set the numbers of a module or config that say how many KV heads there are."""
    if isinstance(home, MultiHeadAttention):
        home.num_kv_heads = after
        return
    for name in KV_HEADS:
        if getattr(home, name, None) == before:
            setattr(home, name, after)
    for name in PER_KV_HEAD:
        if getattr(home, name, None) == heads // before:
            setattr(home, name, heads // after)
