"""Which heads a pruned attention layer kept: its heads are told by the ids they had before.

A layer that was cut carries a `Kept`; one that was not carries nothing, and its heads are counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

__all__ = ["Kept", "heads_of", "keep", "kept_of"]

_NAME = "_headwise_kept"


@dataclass(frozen=True)
class Kept:
    """The heads of a layer that was cut.

    Attributes:
        heads: ids of its query heads, in the order it attends with them.
        groups: of each KV head it has, how many query heads read it, in order; they may differ.
        kv_heads: ids of its KV heads.
        num_heads: how many query heads it had.
        num_kv_heads: how many KV heads it had.
    """

    heads: tuple[int, ...]
    groups: tuple[int, ...]
    kv_heads: tuple[int, ...]
    num_heads: int
    num_kv_heads: int

    @property
    def even(self) -> bool:
        """Whether every KV head is read by as many query heads, as attention functions take for granted."""
        return len(set(self.groups)) <= 1


def kept_of(module: nn.Module) -> Kept | None:
    """What a pruned layer kept; None for one that was not cut."""
    return module.__dict__.get(_NAME)


def keep(module: nn.Module, kept: Kept) -> None:
    """Write on a layer that was cut what it kept; a copy of the module has it too."""
    module.__dict__[_NAME] = kept


def heads_of(module: nn.Module, num_heads: int) -> tuple[int, ...]:
    """The ids of the `num_heads` heads that a layer attends with, in order."""
    kept = kept_of(module)
    return tuple(range(num_heads)) if kept is None else kept.heads
