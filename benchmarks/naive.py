"""The statistics of every head as they are made today: eager attention, whole patterns, plain torch.

What the benchmark of heads compares with. The numbers are the same as headwise's (`heads.py` checks it).
"""

from __future__ import annotations

import torch
from torch import Tensor


def statistics_of(
    attentions: tuple[Tensor, ...], probes: Tensor, top: int, pool: int
) -> list[dict[str, Tensor]]:
    """Means over queries of each layer's [1, head, query, key] patterns; probes [probe, query], -1 = none."""
    return [_of_layer(pattern[0], probes, top, pool) for pattern in attentions]


def _of_layer(pattern: Tensor, probes: Tensor, top: int, pool: int) -> dict[str, Tensor]:
    heads, queries, keys = pattern.shape
    at = torch.arange(queries)
    apart = (at[:, None] - torch.arange(keys)).abs()
    strongest, _ = pattern.topk(top, -1)
    found = {
        "entropy": torch.special.entr(pattern).sum(-1).mean(1),
        "distance": (pattern * apart).sum(-1).mean(1),
        "largest": pattern.amax(-1).mean(1),
        "top": strongest.sum(-1).mean(1),
        "received": pattern.sum(1),
    }
    best = pattern.argmax(-1)
    for i, named in enumerate(probes):
        some = named >= 0
        mass = pattern[:, at[some], named[some]]
        found[f"probe {i}"] = mass.mean(1)
        found[f"hits {i}"] = (best[:, some] == named[some]).float().mean(1)
    cells = at * pool // queries
    one_hot = torch.nn.functional.one_hot(cells, pool).float()
    share = one_hot / one_hot.sum(0).clamp_min(1)
    found["pooled"] = share.T @ pattern @ one_hot
    index = (cells[:, None] * pool + cells).flatten().expand(heads, -1)
    empty = torch.zeros(heads, pool * pool)
    found["pooled_max"] = empty.scatter_reduce(1, index, pattern.flatten(1), "amax")
    return found
