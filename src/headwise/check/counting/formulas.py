"""The closed forms of what attention and the feed-forward network cost, from their sizes alone.

They are the articles' (h times d x d/h is d x d; n x n x d for the scores), and know nothing of how a model is
run: what a run costs is held against them. A multiply-add is 2 FLOPs, biases and norms are left out, and all n x m
scores are counted, whatever the mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FLOPS", "PARAMETERS", "Form", "attention", "cache", "feed_forward"]

PARAMETERS: Mapping[str, str] = {
    "q": "d h d_k",
    "k": "d h_kv d_k",
    "v": "d h_kv d_v",
    "scores": "0",
    "mix": "0",
    "o": "h d_v d",
    "ffn": "maps d d_ff",
}
"""The numbers in the weights of each part."""

FLOPS: Mapping[str, str] = {
    "q": "2 n d h d_k",
    "k": "2 m d h_kv d_k",
    "v": "2 m d h_kv d_v",
    "scores": "2 n m h d_k",
    "mix": "2 n m h d_v",
    "o": "2 n h d_v d",
    "ffn": "2 n maps d d_ff",
}
"""The FLOPs of a sequence, forward; backward is twice that."""


@dataclass(frozen=True)
class Form:
    """What a formula gives for one part: numbers in its weights, and FLOPs of one sequence forward."""

    parameters: int
    flops: int


def attention(
    d_model: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    v_dim: int,
    queries: int,
    keys: int,
    memory: int | None = None,
) -> dict[str, Form]:
    """Multi-head attention of one layer: W_Q, W_K, W_V, the scores, the mix of values, W_O.

    Args:
        d_model: channels that the queries' map reads, and W_O makes.
        num_heads, num_kv_heads: query heads, and heads of keys and values.
        head_dim, v_dim: channels of a query and key, and of a value.
        queries, keys: positions.
        memory: channels that keys and values are made of; None = d_model.
    """
    of = d_model if memory is None else memory
    q, o = d_model * num_heads * head_dim, num_heads * v_dim * d_model
    k, v = of * num_kv_heads * head_dim, of * num_kv_heads * v_dim
    pairs = queries * keys * num_heads
    return {
        "q": Form(q, 2 * queries * q),
        "k": Form(k, 2 * keys * k),
        "v": Form(v, 2 * keys * v),
        "scores": Form(0, 2 * pairs * head_dim),
        "mix": Form(0, 2 * pairs * v_dim),
        "o": Form(o, 2 * queries * o),
    }


def feed_forward(d_model: int, d_ff: int, positions: int, maps: int = 2) -> Form:
    """The feed-forward network of one layer: d -> d_ff -> d; of 3 maps where it is gated (SwiGLU)."""
    weights = maps * d_model * d_ff
    return Form(weights, 2 * positions * weights)


def cache(num_kv_heads: int, head_dim: int, v_dim: int, positions: int, itemsize: int) -> int:
    """The bytes of the keys and values of one layer and one sequence."""
    return positions * num_kv_heads * (head_dim + v_dim) * itemsize
