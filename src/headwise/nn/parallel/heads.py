"""Which heads of an attention layer a process has, and its attention with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.parallel.own import mesh_of, shared

__all__ = ["Share", "SplitAttention", "share_of"]


@dataclass(frozen=True)
class Share:
    """The heads of one process: a run of query heads, and the KV heads they read.

    Attributes:
        heads: its query heads, among all of the layer.
        kv_heads: the KV heads they read, among all of the layer.
        groups: how many of its query heads read each of these; None = as many on every process.
        alone: whether no KV head is read on two processes, and each reads as many.
    """

    heads: range
    kv_heads: range
    groups: tuple[int, ...] | None
    alone: bool


def share_of(reads: Sequence[int], num_kv_heads: int, rank: int, size: int) -> Share:
    """The heads of the `rank`-th of `size` processes.

    Args:
        reads: the KV head that each query head reads, in order; as many as the processes divide.
        num_kv_heads: how many there are.
        rank: of the process.
        size: how many processes there are.
    """
    each, own = len(reads) // size, num_kv_heads // size
    runs = [reads[i * each : (i + 1) * each] for i in range(size)]
    alone = num_kv_heads % size == 0 and all(
        sorted(set(run)) == list(range(i * own, (i + 1) * own)) for i, run in enumerate(runs)
    )
    sizes = {run.count(kv_head) for run in runs for kv_head in run}
    mine = runs[rank]
    kv_heads = range(min(mine, default=0), max(mine, default=-1) + 1)
    groups = tuple(mine.count(kv_head) for kv_head in kv_heads)
    heads = range(rank * each, (rank + 1) * each)
    return Share(heads, kv_heads, groups if len(sizes) > 1 else None, alone)


class SplitAttention(MultiHeadAttention):
    """Attention with this process's heads, whose results are summed with the others' in W_O.

    Attributes:
        total_heads: query heads of the layer on all processes.
        total_kv_heads: its KV heads; as many as query heads where these do not share them evenly.
        first_head: which of the layer's query heads is the first of this process.
    """

    total_heads: int
    total_kv_heads: int
    first_head: int

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As `MultiHeadAttention`, on the same arguments in every process."""
        mesh = mesh_of(self)
        args = tuple(shared(x, mesh) if isinstance(x, Tensor) else x for x in args)
        named: Any = {k: shared(x, mesh) if isinstance(x, Tensor) else x for k, x in kwargs.items()}
        if self.training and self.dropout:
            with _own_numbers(mesh.get_local_rank(), args[0].device):
                return super().forward(*args, **named)
        return super().forward(*args, **named)

    def _own_gate(self, gate: Tensor | None) -> Tensor | None:
        if gate is None:
            return None
        axis = 0 if gate.dim() == 1 else 1
        every = gate.shape[axis] == self.total_heads
        return gate.narrow(axis, self.first_head, self.num_heads) if every else gate


@contextmanager
def _own_numbers(rank: int, device: torch.device) -> Iterator[None]:
    """Random numbers that no other process draws, from a seed that all draw together."""
    seed = int(torch.randint(2**62, ()))
    devices = [] if device.type == "cpu" else [device]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(seed + rank)
        yield
