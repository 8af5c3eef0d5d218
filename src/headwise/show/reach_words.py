"""The masks of a reach in words: as they are written, and which layers have which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ReachWords"]


@dataclass(frozen=True)
class ReachWords:
    """The masks as they are written, one for each layer."""

    own: tuple[str, ...]
    across: tuple[str, ...] = ()
    encoder: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Each once, in turn."""
        parts = [("", self.own), ("encoder ", self.encoder), ("across ", self.across)]
        return "; ".join(
            name + ", then ".join(dict.fromkeys(texts)) for name, texts in parts if texts
        )

    def listed(self) -> list[dict[str, Any]]:
        """Each mask with the layers that have it, in words and as numbers."""
        has_encoder = bool(self.encoder)
        named = [("decoder" if has_encoder else "", self.own), ("across", self.across)]
        shown = [entry for name, texts in named for entry in _by_mask(name, texts, True)]
        return shown + _by_mask("encoder", self.encoder, False)


def _by_mask(name: str, texts: Sequence[str], lit: bool) -> list[dict[str, Any]]:
    found = []
    for text in dict.fromkeys(texts):
        layers = [layer for layer, one in enumerate(texts, 1) if one == text]
        every = len(layers) == len(texts)
        which = f"all {len(texts)} layers" if every else f"layers {_listed(layers)}"
        which = f"layer {layers[0]}" if len(layers) == 1 else which
        where = f"{name}, {which}" if name else which[0].upper() + which[1:]
        found.append({"where": where, "text": text, "layers": layers if lit else []})
    return found


def _listed(numbers: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, ..." if len(numbers) > most else shown
