"""The parts that a ledger has rows for, and what they are."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PARTS", "SAYS"]

SAYS: Mapping[str, str] = {
    "q": "W_Q, which makes the queries",
    "k": "W_K, which makes the keys",
    "v": "W_V, which makes the values",
    "shared": "maps that make more than one of queries, keys and values (latent attention's way down)",
    "scores": "the product of queries and keys, and the softmax",
    "mix": "the product of the pattern and the values",
    "o": "W_O, which reads the head outputs",
    "ffn": "the feed-forward network, its experts and their router",
    "norm": "norms",
    "embedding": "what turns the input into vectors: tables of tokens and positions, maps before the blocks",
    "output": "what comes after the last block, but its norm: the map to the vocabulary",
    "other": "all else",
}
"""What each part is."""

PARTS = tuple(SAYS)
"""In the order in which a block runs."""
