"""Fewer key/value heads for real: smaller matrices, and the numbers that say how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from headwise.cut.census import forget
from headwise.cut.pruning.counting import Counts, numbers_of
from headwise.cut.pruning.record import Cut, apply_cut, cut_of, put
from headwise.cut.regrouping.grouping import Groups
from headwise.cut.regrouping.maps import HeadRows, LayerMaps
from headwise.hub.kept import Kept, kept_of
from headwise.hub.load import Model
from headwise.hub.outputs import reads_columns
from headwise.names import LayerId
from headwise.nn import MultiHeadAttention

__all__ = ["resize"]


def resize(model: Model, layers: Sequence[LayerMaps], groups: Mapping[LayerId, Groups]) -> None:
    """Drop the rows of all KV heads of each layer but the first ones, one for each group, and record it.

    Args:
        model: whose module changes.
        layers: its maps, which no longer hold after this.
        groups: of each layer, which KV heads share one now.
    """
    kept: dict[str, Kept] = {}
    numbers: dict[str, dict[str, int]] = {}
    tensors: dict[str, Tensor] = {}
    for maps in layers:
        path, number = maps.layer.path, len(groups[maps.id])
        kept[path] = kept_after(maps, groups[maps.id])
        numbers[path] = _numbers(maps, number)
        tensors |= _tensors(maps, number)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    before = cut_of(model.module) or Cut({}, {}, {})
    with torch.no_grad():
        apply_cut(model.module, before.then(Cut(kept, shapes, numbers)))
        for name, tensor in tensors.items():
            put(model.module, name, tensor)
    model.__dict__.pop("anatomy", None)
    forget(model)


def kept_after(maps: LayerMaps, groups: Groups) -> Kept:
    """The heads of a layer in their order, by their first ids; a shared KV head is called as its first."""
    heads, kv_heads = maps.q.heads, maps.k.heads
    old, each = kept_of(maps.layer.module), heads // kv_heads
    ids = tuple(range(heads)) if old is None else old.heads
    kv_ids = tuple(range(kv_heads)) if old is None else old.kv_heads
    order = [head * each + i for group in groups for head in group for i in range(each)]
    return Kept(
        tuple(ids[head] for head in order),
        (heads // len(groups),) * len(groups),
        tuple(kv_ids[group[0]] for group in groups),
        heads if old is None else old.num_heads,
        kv_heads if old is None else old.num_kv_heads,
    )


def _numbers(maps: LayerMaps, number: int) -> dict[str, int]:
    module, heads, kv_heads = maps.layer.module, maps.q.heads, maps.k.heads
    if isinstance(module, MultiHeadAttention):
        return {"num_kv_heads": number}
    before = Counts(heads, kv_heads, heads // kv_heads, maps.q.dim)
    return numbers_of(module, before, Counts(heads, number, heads // number, maps.q.dim))


def _tensors(maps: LayerMaps, number: int) -> dict[str, Tensor]:
    """The weights and biases that make keys and values, without the rows of heads that went into others."""
    dropped: dict[str, tuple[nn.Module, set[int]]] = {}
    for rows in (maps.k, maps.v):
        dropped.setdefault(rows.path, (rows.module, set()))[1].update(_beyond(rows, number))
    found: dict[str, Tensor] = {}
    for path, (module, out) in dropped.items():
        for name, axis in (("weight", 1 if reads_columns(module) else 0), ("bias", 0)):
            held = module._parameters.get(name)
            if held is not None:
                stays = [i for i in range(held.shape[axis]) if i not in out]
                places = torch.tensor(stays, device=held.device)
                found[f"{path}.{name}"] = held.detach().index_select(axis, places)
    return found


def _beyond(rows: HeadRows, heads: int) -> range:
    return range(rows.first + heads * rows.dim, rows.rows.stop)
