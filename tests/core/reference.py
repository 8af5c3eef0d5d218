"""Attention as one would write it on a blackboard: float64, one head and one query at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.core.streaming import Wanted


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


def statistics(
    pattern: np.ndarray, sees: np.ndarray, wanted: Wanted, offset: int
) -> dict[str, np.ndarray]:
    """What `streaming.Statistics` says, from the whole pattern [batch, head, query, key], but for the strongest."""
    batch, heads, queries, keys = pattern.shape
    apart = np.abs(np.arange(queries)[:, None] + offset - np.arange(keys))
    found = {
        "entropy": -(pattern * np.log(np.where(pattern > 0, pattern, 1))).sum(-1),
        "distance": (pattern * apart).sum(-1),
        "largest": pattern.max(-1, initial=0),
        "visible": sees.sum(-1),
    }
    lengths = [_lengths(x, batch, most) for x, most in _sides(wanted, queries, keys)]
    real = np.arange(queries) < lengths[0][:, None]
    if wanted.probes is not None:
        named = np.broadcast_to(wanted.probes.numpy(), (batch, *wanted.probes.shape[1:]))
        found["mass"] = np.zeros((batch, heads, *named.shape[1:]))
        for b, h, p, i in np.ndindex(found["mass"].shape):
            if named[b, p, i] >= 0:
                found["mass"][b, h, p, i] = pattern[b, h, i, named[b, p, i]]
        found["named_seen"] = np.zeros(found["mass"].shape, dtype=bool)
        for b, h, p, i in np.ndindex(found["mass"].shape):
            found["named_seen"][b, h, p, i] = named[b, p, i] >= 0 and sees[b, h, i, named[b, p, i]]
        found["hits"] = (found["mass"] > 0) & (found["mass"] == found["largest"][:, :, None])
    if wanted.received:
        found["received"] = (pattern * real[:, None, :, None]).sum(2)
        found["seen_by"] = (sees & real[:, None, :, None]).sum(2)
    if wanted.pool:
        found["pooled"], found["pooled_max"] = _pooled(pattern, real, lengths, wanted.pool)
    return found


def _sides(wanted: Wanted, queries: int, keys: int) -> tuple[tuple[Tensor | None, int], ...]:
    return (wanted.query_lengths, queries), (wanted.key_lengths, keys)


def _lengths(given: Tensor | None, batch: int, most: int) -> np.ndarray:
    return np.full(batch, most) if given is None else given.numpy()


def _pooled(
    pattern: np.ndarray, real: np.ndarray, lengths: list[np.ndarray], side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over keys of means over real queries, and maxima, cell by cell."""
    batch, heads, queries, keys = pattern.shape
    total, most = (np.zeros((batch, heads, side, side)) for _ in range(2))
    for b in range(batch):
        row = np.arange(queries) * side // max(1, lengths[0][b])
        at = np.arange(keys)
        column = np.where(at < lengths[1][b], at * side // max(1, lengths[1][b]), side - 1)
        for r, c in np.ndindex(side, side):
            cell = pattern[b][:, (row == r) & real[b]][:, :, column == c]
            if cell.shape[1]:
                total[b, :, r, c] = cell.sum((1, 2)) / cell.shape[1]
                most[b, :, r, c] = cell.max((1, 2), initial=0)
    return total, most


def fit(sees: np.ndarray, wanted: Wanted, offset: int) -> np.ndarray:
    """Which keys may be among a row's strongest, bool [batch, head, query, key]."""
    queries, keys = sees.shape[2:]
    apart = np.abs(np.arange(queries)[:, None] + offset - np.arange(keys))
    fits = sees & (apart >= wanted.apart)
    return fits if wanted.eligible is None else fits & wanted.eligible.numpy()[:, None, None]
