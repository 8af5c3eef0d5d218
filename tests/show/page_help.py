"""What the tests of the page share: a pattern's bytes read back, and small records."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import headwise as hw
from headwise.show.page.apart import SETS
from headwise.show.page.cells import NONE, ROOT, Kept


def small(length: int = 40, heads: int = 4, seed: int = 0, head_dim: int = 8) -> hw.Record:
    """A record of a small decoder with two layers of heads in two KV groups, over random tokens."""
    torch.manual_seed(seed)
    config = hw.nn.TransformerConfig(
        vocab_size=50,
        num_layers=2,
        num_heads=heads,
        num_kv_heads=2,
        d_model=heads * head_dim,
        d_ff=64,
    )
    model = hw.load(hw.nn.Decoder(config))
    (found,) = hw.look(model, {"input_ids": torch.randint(50, (1, length))})
    return found


def changed(record: hw.Record, **scores: Any) -> hw.Record:
    """The record with other scores (mask, sink, ...) in all layers, the queries and keys twice as long."""
    layers = {
        id: replace(layer, scores=replace(layer.scores, q=layer.scores.q * 3, **scores))
        for id, layer in record.layers.items()
    }
    return replace(record, layers=layers)


def dense(kept: Kept) -> np.ndarray:
    """The cells as a matrix, 0 where none is kept."""
    found = np.zeros(kept.shape)
    found[np.repeat(np.arange(kept.shape[0]), kept.count), kept.key] = kept.weight
    return found


def unpacked(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The cells as a matrix (NaN where none is kept), what rows hold besides, and the pooled map."""
    (shape, counts, steps, roots, rest, _), pool = _parts(data)
    found, i = np.full(shape, np.nan), 0
    for q, n in enumerate(counts.tolist()):
        found[q, np.cumsum(steps[i : i + n])] = (roots[i : i + n] / ROOT) ** 2
        i += n
    return found, _masses(rest), pool


def unpacked_apart(data: bytes) -> np.ndarray:
    """What of the rest of each row lies on each set of keys that can be set apart, [set, query]."""
    (*_, apart), _ = _parts(data)
    return _masses(apart)


def _masses(roots: np.ndarray) -> np.ndarray:
    return np.where(roots == NONE, np.nan, (roots / ROOT) ** 2)


def _parts(data: bytes) -> tuple[tuple[Any, ...], np.ndarray | None]:
    body = zlib.decompress(data)
    queries, keys, count, side, complete = np.frombuffer(body, "<u4", 5).tolist()
    top = float(np.frombuffer(body, "<f4", 2, 20)[0])
    at, parts = 28, []
    for size in (queries, count, count, queries, *[queries] * (0 if complete else len(SETS))):
        low, high = np.frombuffer(body, np.uint8, 2 * size, at).reshape(2, size).astype(int)
        parts.append(low + 256 * high)
        at += 2 * size
    pool = np.frombuffer(body, np.uint8, side * side, at).reshape(side, side)
    assert len(body) == at + side * side
    apart = np.array(parts[4:]).reshape(-1, queries)
    apart[2:] = (apart[2:] + apart[:2]) % 65536
    return ((queries, keys), *parts[:4], apart), None if complete else (pool / 255) ** 2 * top
