"""Positions: where each token stands, and the five ways to tell attention.

Positions count real tokens: padding takes no number, and each packed document starts at 0 again. So
a token gets the number it has when its sequence runs alone, whatever stands around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.nn.config import Sinusoids
from headwise.nn.scaling import RopeScaling, attention_factor, inverse_wavelengths

__all__ = [
    "Places",
    "Rotary",
    "alibi",
    "alibi_slopes",
    "place",
    "relative",
    "rotary",
    "rotate",
    "sinusoidal",
]

Rotary = tuple[Tensor, Tensor]
"""cos and sin, each [batch or 1, 1, position, head_dim / 2]."""


@dataclass(frozen=True)
class Places:
    """Where the queries and the keys of one forward pass stand."""

    queries: Int[Tensor, "batch query"]
    keys: Int[Tensor, "batch key"]


def place(
    query_len: int,
    key_len: int,
    key_padding_mask: Bool[Tensor, "batch key"] | None = None,
    documents: Int[Tensor, "batch key"] | None = None,
    device: torch.device | None = None,
) -> Places:
    """Number the tokens; the queries are the last `query_len` keys (batch is 1 where all agree).

    Args:
        query_len: number of queries.
        key_len: number of keys, cached ones included.
        key_padding_mask: True = padding; it takes no number of its own.
        documents: document number of each token; a document is one run of equal numbers.
        device: where to make them.
    """
    keys = torch.arange(key_len, device=device)[None]
    if key_padding_mask is not None:
        keys = ((~key_padding_mask).cumsum(-1) - 1).clamp(min=0)
    if documents is not None:
        keys = keys - _start_of_document(keys, documents)
    return Places(keys[:, key_len - query_len :], keys)


def _start_of_document(
    keys: Int[Tensor, "#batch key"], documents: Int[Tensor, "batch key"]
) -> Int[Tensor, "batch key"]:
    """The position at which each token's document starts."""
    starts = documents != documents.roll(1, -1)  # the first token's position is 0 either way
    return torch.where(starts, keys, 0).cummax(-1).values


def sinusoidal(
    positions: Int[Tensor, "*batch position"], d_model: int, layout: Sinusoids = "interleaved"
) -> Float[Tensor, "*batch position d_model"]:
    """Sines and cosines of wavelengths 2 pi to 10000 * 2 pi (Vaswani et al. 2017).

    Args:
        positions: of the tokens.
        d_model: width of the stream.
        layout: sin on even and cos on odd channels, or "halves": all sines, then all cosines.
    """
    even = torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float32)
    angle = positions[..., None].float() * torch.exp(even * (-math.log(10000.0) / d_model))
    if layout == "halves":
        return torch.cat((angle.sin(), angle.cos()), dim=-1)[..., :d_model]
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)[..., :d_model]


def rotary(
    positions: Int[Tensor, "batch position"],
    head_dim: int,
    theta: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    scaling: RopeScaling | None = None,
) -> Rotary:
    """cos and sin for `rotate` (RoPE, Su et al. 2021).

    Pair i turns by position * theta^(-2i / head_dim) radians, or as `scaling` says.
    Computed in float32 (or float64 where asked), then rounded to `dtype`.
    """
    exact = torch.promote_types(dtype, torch.float32)
    inverse = inverse_wavelengths(head_dim, theta, scaling, positions.device, exact)
    angle = positions[:, None, :, None].to(exact) * inverse
    times = attention_factor(scaling)
    if times == 1:
        return angle.cos().to(dtype), angle.sin().to(dtype)
    return (times * angle.cos()).to(dtype), (times * angle.sin()).to(dtype)


def rotate(
    x: Float[Tensor, "batch head position head_dim"], table: Rotary
) -> Float[Tensor, "batch head position head_dim"]:
    """Turn channel i together with channel i + head_dim / 2 (the half-split pairs of Llama).

    The result is like x in dtype, also where the table is more exact.
    """
    cos, sin = table
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def alibi_slopes(num_heads: int) -> list[float]:
    """One slope per head (Press et al. 2022): 2^(-8/n), 2^(-16/n), ... for n a power of two.

    Other head counts take the slopes of the power of two below, then every other slope of the one
    above, as the authors do.
    """
    below = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2 ** (-4 * (i + 1) / below) for i in range(0, 2 * below, 2)]
    return (slopes + between)[:num_heads]


def alibi(
    places: Places, num_heads: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch head query key"]:
    """The bias -slope * |query position - key position| that ALiBi adds to the scores."""
    distance = (places.queries[:, None, :, None] - places.keys[:, None, None, :]).abs()
    exact = torch.promote_types(dtype, torch.float32)  # bfloat16 counts only to 256
    slopes = torch.tensor(alibi_slopes(num_heads), device=distance.device, dtype=exact)
    return (-slopes[:, None, None] * distance).to(dtype)


def relative(
    places: Places, num_buckets: int, max_distance: int, causal: bool
) -> Int[Tensor, "batch query key"]:
    """The bucket of every key's distance from every query (T5, Raffel et al. 2020, 2.1).

    Half of the buckets hold one distance each, the others grow with its logarithm; what is
    `max_distance` away or further shares the last. Where not causal, keys after the query have
    buckets of their own, half of all.

    Args:
        places: where the queries and keys stand.
        num_buckets: how many buckets there are.
        max_distance: from where on distances are not told apart.
        causal: only keys at or before the query count.
    """
    ahead = places.keys[:, None, :] - places.queries[:, :, None]
    distance = (-ahead).clamp(min=0) if causal else ahead.abs()
    buckets = num_buckets if causal else num_buckets // 2
    exact = buckets // 2
    octaves = (distance.clamp(min=exact).float() / exact).log() / math.log(max_distance / exact)
    far = (exact + (octaves * (buckets - exact)).long()).clamp(max=buckets - 1)
    near = torch.where(distance < exact, distance, far)
    return near if causal else near + (ahead > 0).long() * buckets
