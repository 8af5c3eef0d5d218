"""Which heads a pruned attention layer kept: its heads are told by the ids they had before.

A layer that was cut carries a `Kept`; one that was not carries nothing, and its heads are counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from headwise.names import LayerId

__all__ = ["Kept", "Naming", "heads_left", "heads_of", "keep", "kept_of", "naming_of"]

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

    @property
    def kv_of(self) -> tuple[int, ...]:
        """The id of the KV head that each of its query heads reads."""
        pairs = zip(self.kv_heads, self.groups, strict=True)
        return tuple(id for id, readers in pairs for _ in range(readers))


@dataclass(frozen=True)
class Naming:
    """What the heads of a layer are called, in the order it attends with them.

    Attributes:
        heads: the id of each.
        kv: the id of the KV head each reads.
        total: how many the layer had before any was cut.
    """

    heads: tuple[int, ...]
    kv: tuple[int, ...]
    total: int

    def index(self, head: int) -> int | None:
        """Where the head of this id is; None where it was cut, or never was."""
        return self.heads.index(head) if head in self.heads else None

    def said(self, layer: LayerId) -> str:
        """The ids in a few words: `18.0 to 18.8`, or `18.0, 18.2, 18.5` where some were cut."""
        ids = [str(layer.head(head)) for head in self.heads]
        if self.heads == tuple(range(self.total)) and ids:
            return f"{ids[0]} to {ids[-1]}"
        return ", ".join(ids) or "none: all were cut"


def naming_of(module: nn.Module | None, num_heads: int, num_kv_heads: int) -> Naming:
    """What the `num_heads` heads that a layer attends with are called.

    Args:
        module: the layer's; None = one that was not cut.
        num_heads, num_kv_heads: it attends with.
    """
    kept = None if module is None else kept_of(module)
    if kept is not None:
        return Naming(kept.heads, kept.kv_of, kept.num_heads)
    groups = num_heads // max(1, num_kv_heads)
    return Naming(tuple(range(num_heads)), tuple(h // groups for h in range(num_heads)), num_heads)


def kept_of(module: nn.Module) -> Kept | None:
    """What a pruned layer kept; None for one that was not cut."""
    return module.__dict__.get(_NAME)


def heads_left(module: nn.Module) -> bool:
    """Whether a layer has a head at all: one that was cut may have lost all of them."""
    kept = kept_of(module)
    return kept is None or bool(kept.heads)


def keep(module: nn.Module, kept: Kept) -> None:
    """Write on a layer that was cut what it kept; a copy of the module has it too."""
    module.__dict__[_NAME] = kept


def heads_of(module: nn.Module, num_heads: int) -> tuple[int, ...]:
    """The ids of the `num_heads` heads that a layer attends with, in order."""
    kept = kept_of(module)
    return tuple(range(num_heads)) if kept is None else kept.heads
