"""Heads split over processes: by a tensor parallel plan, or `headwise.nn.parallel`, each attends with some of them.

Which ones is read from the model itself: the attention's weights are DTensors, whose mesh says which of how many
shares is this process's, and a share is a run of heads in order. A plan may split the weights and still attend
with all heads everywhere (Phi-3's gathers first), so the heads that are seen are held against the heads there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headwise.core.scores import Scores

__all__ = [
    "Shard",
    "global_heads",
    "is_split",
    "local_gate",
    "local_part",
    "num_kv_heads",
    "of_ours",
    "shard_of",
    "stated_heads",
    "whole",
]

_HEADS = (
    "total_heads",
    "num_attention_heads",
    "num_heads",
    "n_head",
    "encoder_attention_heads",
    "decoder_attention_heads",
)
_KV_HEADS = ("total_kv_heads", "num_key_value_heads", "num_kv_heads")


@dataclass(frozen=True, eq=False)
class Shard:
    """This process's share of the heads of one layer: the `rank`-th of `size` equal runs."""

    group: Any
    rank: int
    size: int

    def global_heads(self, heads: int) -> range:
        """The ids among all heads of the layer of the `heads` heads this process attends with."""
        return range(self.rank * heads, (self.rank + 1) * heads)

    def gather(self, x: Tensor, dim: int = 1) -> Tensor:
        """All processes' x in order of their heads, put together along an axis; every process must call it."""
        parts = [
            torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.size)
        ]
        dist.all_gather(parts, x.detach().contiguous(), group=self.group)
        return torch.cat(parts, dim)


def global_heads(module: nn.Module, heads: int) -> range:
    """The ids among all heads of an attention layer of the `heads` heads that this process attends with.

    Local head h is global_heads(module, heads)[h]; the layer's results must be gathered (`shard_of(...).gather`)
    where there is a shard.
    """
    shard = shard_of(module, heads)
    return range(heads) if shard is None else shard.global_heads(heads)


def shard_of(module: nn.Module, heads: int) -> Shard | None:
    """This process's share of an attention layer that attends with `heads` heads here; None = all of them."""
    return _share(module, heads, _HEADS)


def whole(module: nn.Module, scores: Scores, v: Tensor, z: Tensor) -> tuple[Scores, Tensor, Tensor]:
    """A call's scores, values and head outputs with the heads of all processes; as they are where not split."""
    shard = shard_of(module, scores.shape[1])
    if shard is None:
        return scores, v, z
    k, kv_heads = scores.k, num_kv_heads(module, scores)
    if kv_heads != k.shape[1] or of_ours(module):
        k, v = shard.gather(k), shard.gather(v)
        again = k.shape[1] // kv_heads  # of ours, one that several processes read comes from each
        k, v = k[:, ::again], v[:, ::again]
    bias, sink = scores.bias, scores.sink
    if bias is not None and bias.shape[1] > 1:
        bias = shard.gather(bias)
    if sink is not None:
        sink = shard.gather(sink, 0)
    full = replace(scores, q=shard.gather(scores.q), k=k, bias=bias, sink=sink)
    return full, v, shard.gather(z)


def stated_heads(module: nn.Module) -> int | None:
    """The number of heads that an attention layer or its config names; None where neither does."""
    for home in (module, getattr(module, "config", None)):
        for name in _HEADS:
            if isinstance(number := getattr(home, name, None), int):
                return number
    return None


def num_kv_heads(module: nn.Module, scores: Scores) -> int:
    """How many KV heads the layer has in all processes; where each has all of them, they are not split."""
    heads, kv_heads = scores.shape[1], scores.k.shape[1]
    shard = shard_of(module, heads)
    if shard is None:
        return kv_heads
    if of_ours(module):
        return int(module.total_kv_heads)  # type: ignore[arg-type]  # of SplitAttention
    split = kv_heads == heads or _share(module, kv_heads, _KV_HEADS) is not None
    return kv_heads * shard.size if split else kv_heads


def is_split(model: nn.Module) -> bool:
    """Whether a tensor parallel plan shares this model out among processes, which must then run it together."""
    return any(True for _ in _splits(model))


def of_ours(module: nn.Module) -> bool:
    """Whether `headwise.nn.parallel` split this attention layer."""
    return hasattr(module, _HEADS[0])


def local_part(weight: Tensor, axis: int, size: int) -> Tensor:
    """Of a weight that a plan may have split, this process's part, or all of it where a part is not `size` long."""
    part: Tensor = weight.to_local() if hasattr(weight, "to_local") else weight
    if part.shape[axis] == size or part is weight:
        return part
    full: Tensor = weight.full_tensor()  # type: ignore[attr-defined]  # of DTensor
    return full


def local_gate(module: nn.Module, gate: Tensor | None, heads: int) -> Tensor | None:
    """Of a gate over all heads of a layer ([head], or [batch, head, ...]) this process's part."""
    shard = None if gate is None else shard_of(module, heads)
    if gate is None or shard is None:
        return gate
    mine = shard.global_heads(heads)
    return gate.narrow(0 if gate.dim() == 1 else 1, mine.start, heads)


def _share(module: nn.Module, heads: int, names: tuple[str, ...]) -> Shard | None:
    split = next(_splits(module), None)
    if split is None:
        return None
    if of_ours(module):
        names = names[:1]  # the others are those of this process
    homes = (module, getattr(module, "config", None))
    known = {getattr(home, name, None) for home in homes for name in names}
    return split if heads not in known else None


def _splits(module: nn.Module) -> Iterator[Shard]:
    """The meshes over which weights of this module are split."""
    if not dist.is_available() or not dist.is_initialized():
        return
    from torch.distributed.tensor import DTensor

    for parameter in module.parameters():
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            for dim, placement in enumerate(parameter.placements):
                if placement.is_shard() and mesh.size(dim) > 1:
                    yield Shard(mesh.get_group(dim), mesh.get_local_rank(dim), mesh.size(dim))
