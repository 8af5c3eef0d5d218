"""Plain attention on the CPU without gradients: where the compiled kernel beats scaled_dot_product_attention.

The rule comes from `benchmarks/kernel.py`, one thread, heads of 64, AVX-512 and AVX2: the kernel loses where a
call is so short that packing its keys counts, and wins most where sdpa would need a dense mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.core import kernel
from headwise.core.halves import TILES
from headwise.core.masks import Form
from headwise.core.scores import Scores

__all__ = ["attention"]

FROM_QUERIES: dict[Form, int] = {"full": 512, "causal": 192, "chunked": 32, "dense": 32}
"""From how many queries on the kernel is used, by the form sdpa would take the mask in."""

MOST_KEYS_AVX2 = 8192
"""Without a dense mask and with AVX2 alone, sdpa is as fast beyond."""


def attention(scores: Scores, v: Tensor, form: Form) -> Tensor | None:
    """z by the kernel, [batch, head, query, v_dim]; None where it does not fit or would not be faster."""
    if torch.compiler.is_compiling() or not _faster(scores, v, form):
        return None
    try:
        z = kernel.attention(scores, v)
    except kernel.UnfitError:
        return None
    return z.contiguous() if scores.q.is_contiguous() else z  # laid out like q, as sdpa's is


def _faster(scores: Scores, v: Tensor, form: Form) -> bool:
    q, k = scores.q, scores.k
    if q.device.type != "cpu":
        return False
    one = (
        q.shape[-2] == 1 and q.dtype is torch.bfloat16
    )  # which sdpa takes 2 to 3 times as long for
    if q.shape[-2] < FROM_QUERIES[form] and not one:
        return False
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return False
    path = kernel.status().path
    if path == "avx2" and form in ("full", "causal") and k.shape[-2] > MOST_KEYS_AVX2:
        return False
    return not (q.dtype is torch.bfloat16 and TILES)
