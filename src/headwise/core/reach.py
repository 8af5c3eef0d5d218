"""Reach: whose input can be in whose output after some layers, as the masks of the layers allow.

A mask is one step of information; layers follow one another, and the residual stream keeps what a position has. So
position q is reached by position k after l layers where a path of at most l steps leads from k to q. A model that
lets anything else through leaks.

`reaching` computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.names import MaskError

__all__ = ["NEVER", "Hop", "Reach"]

NEVER = -1
"""Where no path opens."""


class Hop(NamedTuple):
    """One step of a path: in this layer the position `query` attends to the position `key`."""

    layer: int
    query: int
    key: int
    stream: str
    """"self", "cross" (key is a position of the encoder) or "encoder" (both are, and so is the layer)."""


@dataclass(frozen=True, eq=False)
class Reach:
    """Who is reached by whom, and from which layer on. Made by `masks.reach`.

    Attributes:
        first: after how many layers the input of position `key` can be in the output of position `query`: 0 for a
            position itself, -1 for never.
        layers: how many layers there are.
        seen: who attends to whom in each layer, of any head.
        memory: like `first`, for the positions of the encoder, in layers of the decoder; None without one.
        across: like `seen`, from the decoder to the encoder; empty without one.
        encoder: the encoder's own reach; None without one.
        start: the first position of the last call; those before it come out of a cache.
    """

    first: Int[Tensor, "batch query key"]
    layers: int
    seen: tuple[Bool[Tensor, "_ query key"], ...]
    memory: Int[Tensor, "batch query memory_key"] | None = None
    across: tuple[Bool[Tensor, "_ query memory_key"], ...] = ()
    encoder: Reach | None = None
    start: int = 0

    def __repr__(self) -> str:
        batch, queries, keys = self.first.shape
        rows = f"{batch} texts of " if batch > 1 else ""
        return f"Reach({rows}{queries} x {keys} positions, {self.layers} layers)"

    def after(
        self, layers: int | None = None, *, memory: bool = False
    ) -> Bool[Tensor, "batch query source"]:
        """Whether position `query` is reached by each position after so many layers; None = all.

        Args:
            layers: of the decoder, where there is one.
            memory: by the positions of the encoder, not by its own.

        Raises:
            MaskError: more layers than there are, or below 0; no encoder.
        """
        first = self._of_memory() if memory else self.first
        return (first >= 0) & (first <= self._count(layers))

    def context(
        self, layers: int | None = None, *, memory: bool = False
    ) -> Int[Tensor, "batch query"]:
        """How many positions' inputs can be in the output of each, itself included.

        Raises:
            MaskError: as `after`.
        """
        return self.after(layers, memory=memory).sum(-1)

    def back(self, layers: int | None = None) -> Int[Tensor, "batch query"]:
        """How far back the furthest position lies that reaches each one, 0 where none before it does.

        Raises:
            MaskError: as `after`.
        """
        found = self.after(layers)
        keys = torch.arange(found.shape[2], device=found.device)
        far = torch.arange(found.shape[1], device=found.device)[:, None] - keys
        return far.where(found, 0).amax(-1).clamp_min(0)

    def path(
        self, query: int, key: int, *, memory: bool = False, text: int = 0
    ) -> tuple[Hop, ...] | None:
        """One of the shortest ways from the input of `key` to the output of `query`, the first step first.

        Where several keys carry it, the one nearest to `query` is named.

        Args:
            query: the position reached.
            key: the position that reaches it; one of the encoder with `memory`.
            memory: from the encoder.
            text: which of the batch.

        Returns:
            The steps, none for a position itself; None where there is no way.

        Raises:
            MaskError: a position that is not there; no encoder.
        """
        first = _of_text(self._of_memory() if memory else self.first, text)
        for name, at, most in (("query", query, first.shape[0]), ("key", key, first.shape[1])):
            if not 0 <= at < most:
                raise MaskError(f"{name} must be from 0 to {most - 1}, came {at}")
        layer = int(first[query, key])
        if layer == NEVER:
            return None
        hops: list[Hop] = []
        while layer > 0:
            if memory and (across := self._across(layer, query, key, text)) is not None:
                return (*across, *reversed(hops))
            carry = (first[:, key] >= 0) & (first[:, key] < layer)
            via = _nearest(_of_text(self.seen[layer - 1], text)[query] & carry, query)
            hops.append(Hop(layer, query, via, "self"))
            query, layer = via, int(first[via, key])
        return tuple(reversed(hops))

    @property
    def opens(self) -> int | None:
        """After how many layers nothing more is reached; None where even the last layer opens a path."""
        firsts = [self.first] if self.memory is None else [self.first, self.memory]
        last = max(int(first.max()) for first in firsts)
        return last if last < self.layers else None

    def _across(self, layer: int, query: int, key: int, text: int) -> tuple[Hop, ...] | None:
        """The way from the encoder's `key` through this layer's cross-attention; None where none leads there."""
        assert self.encoder is not None
        seen = _of_text(self.across[layer - 1], text)[query]
        found = seen & (_of_text(self.encoder.first, text)[:, key] >= 0)
        if not bool(found.any()):
            return None
        via = _nearest(found, key)
        within = self.encoder.path(via, key, text=text) or ()
        return (
            *(hop._replace(stream="encoder") for hop in within),
            Hop(layer, query, via, "cross"),
        )

    def _of_memory(self) -> Int[Tensor, "batch query memory_key"]:
        if self.memory is None:
            raise MaskError("this reach is of one sequence; give cross= and memory= for an encoder")
        return self.memory

    def _count(self, layers: int | None) -> int:
        count = self.layers if layers is None else layers
        if not isinstance(count, int) or not 0 <= count <= self.layers:
            raise MaskError(
                f"layers must be a whole number from 0 to {self.layers}, came {count!r}"
            )
        return count


def _of_text(x: Tensor, text: int) -> Tensor:
    return x[text if x.shape[0] > 1 else 0]


def _nearest(found: Bool[Tensor, " position"], to: int) -> int:
    """The position nearest to this one, of two the earlier."""
    at = found.nonzero()[:, 0]
    return int(at[(at - to).abs().argmin()])
