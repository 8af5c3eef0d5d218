"""Reach: whose input can be in whose output after some layers, as the masks of the layers allow.

A mask is one step of information; layers follow one another, and the residual stream keeps what a position has. So
position q is reached by position k after l layers where a path of at most l steps leads from k to q. A model that
lets anything else through leaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.masks import Mask
from headwise.names import MaskError

__all__ = ["Reach", "reach"]

NEVER = -1


@dataclass(frozen=True, eq=False)
class Reach:
    """Who is reached by whom, and from which layer on. Made by `masks.reach`.

    Attributes:
        first: after how many layers the input of position `key` can be in the output of position `query`: 0 for a
            position itself, -1 for never.
        layers: how many layers there are.
        memory: the same for the positions of the encoder, in layers of the decoder; None without one.
    """

    first: Int[Tensor, "batch query key"]
    layers: int
    memory: Int[Tensor, "batch query memory_key"] | None = None

    def __repr__(self) -> str:
        batch, queries, keys = self.first.shape
        rows = f"{batch} texts of " if batch > 1 else ""
        return f"Reach({rows}{queries} x {keys} positions, {self.layers} layers)"

    def after(self, layers: int | None = None) -> Bool[Tensor, "batch query key"]:
        """Whether position `query` is reached by position `key` after so many layers; None = all.

        Raises:
            MaskError: more layers than there are, or below 0.
        """
        return (self.first >= 0) & (self.first <= self._count(layers))

    def context(self, layers: int | None = None) -> Int[Tensor, "batch query"]:
        """How many positions' inputs can be in the output of each, itself included.

        Raises:
            MaskError: as `after`.
        """
        return self.after(layers).sum(-1)

    def back(self, layers: int | None = None) -> Int[Tensor, "batch query"]:
        """How far back the furthest position lies that reaches each one, 0 where none before it does.

        Raises:
            MaskError: as `after`.
        """
        found = self.after(layers)
        keys = torch.arange(found.shape[2], device=found.device)
        far = torch.arange(found.shape[1], device=found.device)[:, None] - keys
        return far.where(found, 0).amax(-1).clamp_min(0)

    @property
    def opens(self) -> int | None:
        """After how many layers nothing more is reached; None where more layers would reach more."""
        last = int(self.first.max())
        return last if last < self.layers else None

    def _count(self, layers: int | None) -> int:
        count = self.layers if layers is None else layers
        if not isinstance(count, int) or not 0 <= count <= self.layers:
            raise MaskError(
                f"layers must be a whole number from 0 to {self.layers}, came {count!r}"
            )
        return count


def reach(
    mask: Mask | Sequence[Mask],
    layers: int | None = None,
    *,
    length: int,
    cross: Mask | Sequence[Mask] | None = None,
    memory: Reach | None = None,
) -> Reach:
    """Whose input can be in whose output, after how many layers.

    Heads that have masks of their own count together: what one of them sees is seen.

    Args:
        mask: of every layer, or one for each layer, the first first (local and global layers in turn).
        layers: how many; None = as many as masks are given.
        length: positions of the sequence.
        cross: of a decoder's cross-attention, from its positions to the encoder's; one, or one for each layer. Each
            layer attends to its own positions first, then across.
        memory: the encoder's own reach, with `cross`.

    Raises:
        MaskError: no mask, a number of masks that is not that of the layers, one of another length, or cross
            without memory.
    """
    steps = _steps(mask, layers, "mask")
    if (cross is None) != (memory is None):
        raise MaskError(
            "cross and memory go together: the mask to the encoder, and the encoder's reach"
        )
    if not isinstance(length, int) or length < 1:
        raise MaskError(f"length must be a whole number from 1, came {length!r}")
    own = torch.eye(length, dtype=torch.bool)[None]
    first = torch.where(own, 0, NEVER)
    if cross is None or memory is None:
        for layer, step in enumerate(steps, 1):
            own = _joined(own, step.dense(length, length, 0))
            first = _opened(first, own, layer)
        return Reach(first, len(steps))
    whole = memory.after()
    others = torch.zeros(1, length, whole.shape[2], dtype=torch.bool)
    from_memory = torch.where(others, 0, NEVER)
    pairs = zip(steps, _steps(cross, len(steps), "cross"), strict=True)
    for layer, (step, across) in enumerate(pairs, 1):
        seen = step.dense(length, length, 0)
        own, others = _joined(own, seen), _joined(others, seen)
        others = others | _through(across.dense(length, whole.shape[1], 0).any(1), whole)
        first, from_memory = _opened(first, own, layer), _opened(from_memory, others, layer)
    return Reach(first, len(steps), from_memory)


def _steps(mask: Mask | Sequence[Mask], layers: int | None, name: str) -> list[Mask]:
    if isinstance(mask, Mask):
        count = 1 if layers is None else layers
        if not isinstance(count, int) or count < 1:
            raise MaskError(f"layers must be a whole number from 1, came {count!r}")
        return [mask] * count
    masks = list(mask) if isinstance(mask, Sequence) else []
    wrong = [x for x in masks if not isinstance(x, Mask)]
    if not masks or wrong:
        came = type(wrong[0]).__name__ if wrong else type(mask).__name__ if not masks else ""
        raise MaskError(f"{name} takes a mask or a list of masks, one for each layer, came {came}")
    if layers is not None and layers != len(masks):
        raise MaskError(
            f"{name} holds {len(masks)} masks for {layers} layers; give one, or one for each layer"
        )
    return masks


def _joined(
    reached: Bool[Tensor, "_ query source"], seen: Bool[Tensor, "_ _ query query"]
) -> Bool[Tensor, "_ query source"]:
    """What is reached after one more layer of attention beside the residual stream."""
    return reached | _through(seen.any(1), reached)


def _through(
    seen: Bool[Tensor, "_ query key"], reached: Bool[Tensor, "_ key source"]
) -> Bool[Tensor, "_ query source"]:
    """Whether a query sees some key that a source reaches; exact, since sums of ones are."""
    return (seen.float() @ reached.float()) > 0


def _opened(
    first: Int[Tensor, "_ query source"], reached: Bool[Tensor, "_ query source"], layer: int
) -> Int[Tensor, "_ query source"]:
    """The layers from which on paths are open, with those that this one opens."""
    return first.where((first >= 0) | ~reached, layer)
