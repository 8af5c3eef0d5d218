"""Attention as one would write it on a blackboard: float64, one head and one query at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: np.ndarray | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(z, pattern) in float64; allowed broadcasts to [batch, head, query, key]."""
    qs, ks, vs = (x.detach().double().numpy() for x in (q, k, v))
    batch, heads, queries, dim = qs.shape
    keys = ks.shape[2]
    shape = (batch, heads, queries, keys)
    sees = np.broadcast_to(np.ones(shape, bool) if allowed is None else allowed, shape)
    biases = np.zeros(shape)
    if bias is not None:
        biases = np.broadcast_to(bias.detach().double().numpy(), shape)
    z, pattern = np.zeros((batch, heads, queries, vs.shape[-1])), np.zeros(shape)
    for b, h, i in np.ndindex(batch, heads, queries):
        group = h * ks.shape[1] // heads
        scores = ks[b, group] @ qs[b, h, i] * (dim**-0.5 if scale is None else scale)
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        seen = np.flatnonzero(sees[b, h, i])
        if len(seen) == 0:
            continue
        logits = (scores + biases[b, h, i])[seen]
        top = logits.max() if sink is None else max(logits.max(), float(sink[h]))
        weights = np.exp(logits - top)
        total = weights.sum() + (0 if sink is None else np.exp(float(sink[h]) - top))
        pattern[b, h, i, seen] = weights / total
        z[b, h, i] = pattern[b, h, i] @ vs[b, group]
    return torch.from_numpy(z), torch.from_numpy(pattern)
