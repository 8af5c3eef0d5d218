"""Half precision on the CPU: scaled_dot_product_attention, in float32 where its backward is faster so.

With gradients torch's CPU kernel takes float16 eight times as long as float32, at any length, and bfloat16 twice to
six times as long up to some hundred keys (heads of 32 to 128, one thread, AVX-512 with bfloat16 products; from 512
keys on bfloat16 wins by a tenth). Where the CPU multiplies bfloat16 in tiles (AMX) that is not so. The float32
result is rounded once, so it is at least as near.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["TILES", "sdpa"]

TILES: bool = torch.cpu._is_amx_tile_supported()
"""Whether this CPU multiplies bfloat16 matrices in hardware (AMX), which scaled_dot_product_attention uses."""

MOST_KEYS_BFLOAT16 = 448
"""Up to so many keys the backward is faster in float32 than in bfloat16."""


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None = None,
    dropout: float,
    is_causal: bool = False,
    scale: float,
    groups: int,
) -> Tensor:
    """scaled_dot_product_attention, like q in dtype; `bias` is a boolean mask or one added to the scores."""
    wide = _faster_wide(q, k, v)
    kind = torch.float32 if wide else q.dtype
    if bias is not None and bias.dtype is not torch.bool:
        bias = bias.to(kind)
    grouped = (
        {"enable_gqa": True} if groups > 1 else {}
    )  # in a traced graph the comparison is no bool
    casts = wide and torch.is_autocast_enabled("cpu")  # it would make them narrow again
    with torch.autocast("cpu", enabled=False) if casts else nullcontext():
        z = F.scaled_dot_product_attention(
            q.to(kind),
            k.to(kind),
            v.to(kind),
            attn_mask=bias,
            dropout_p=dropout,
            is_causal=is_causal,
            scale=scale,
            **grouped,
        )
    return z.to(q.dtype)


def _faster_wide(q: Tensor, k: Tensor, v: Tensor) -> bool:
    if q.device.type != "cpu" or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if not trains or torch.compiler.is_exporting():  # a graph for any length must not ask for it
        return False
    return q.dtype is torch.float16 or (not TILES and k.shape[-2] <= MOST_KEYS_BFLOAT16)
