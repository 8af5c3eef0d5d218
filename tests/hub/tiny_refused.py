"""Tiny models none of whose attention can be followed: they cannot be looked into, and it is said."""

from __future__ import annotations

from typing import Any

from tiny_fields import ENCODER, Family


def _plain(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**ENCODER, **fields})


REFUSED: dict[str, Family] = {
    "big-bird-sparse": _plain("BigBird", block_size=2, num_random_blocks=1),
    "convbert": _plain("ConvBert", embedding_size=16),
    "longformer": _plain("Longformer", attention_window=4),
    "squeezebert": _plain("SqueezeBert", embedding_size=24),
}
