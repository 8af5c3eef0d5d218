"""The most telling heads of a text: those with a sharp far link that the other heads do not share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.names import HeadId
from headwise.see.record import Record
from headwise.see.summary import Cell, HeadSummary

_CANDIDATES = 32
"""How many heads, by their strongest link, are compared with all others."""

_FLOOR = 0.1
"""Added to the standard deviation over heads, so that a faint link cannot win by being the only one."""


def telling(
    record: Record, summaries: Sequence[HeadSummary], count: int
) -> list[tuple[HeadSummary, Cell]]:
    """The heads whose strongest far link stands out most, each with that link.

    A link stands out by how far its weight lies above the mean weight all heads of its stream give to that
    cell, in standard deviations over the heads (plus a floor of 0.1).
    """
    ranked = sorted((s for s in summaries if s.top), key=lambda s: -s.top[0].weight)
    found: list[tuple[float, HeadSummary, Cell]] = []
    for stream in dict.fromkeys(s.id.stream for s in ranked):
        heads = [s for s in ranked if s.id.stream == stream][:_CANDIDATES]
        cells = [(s, cell) for s in heads for cell in s.top]
        weights = _weights_of_all_heads(record, stream, [cell for _, cell in cells])
        spread = weights.std(0, correction=0) + _FLOOR
        for i, (summary, cell) in enumerate(cells):
            score = (cell.weight - float(weights[:, i].mean())) / float(spread[i])
            found.append((score, summary, cell))
    best: dict[HeadId, tuple[HeadSummary, Cell]] = {}
    for _, summary, cell in sorted(found, key=lambda entry: -entry[0]):
        best.setdefault(summary.id, (summary, cell))
    return list(best.values())[:count]


def _weights_of_all_heads(record: Record, stream: str, cells: Sequence[Cell]) -> Tensor:
    """What every head of a stream gives to each of some cells: [head, cell]."""
    rows = sorted({cell.query for cell in cells})
    at = torch.tensor([rows.index(cell.query) for cell in cells])
    keys = torch.tensor([cell.key for cell in cells])
    per_layer = []
    for id, layer in record.layers.items():
        if id.stream == stream:
            with torch.no_grad():
                pattern = torch.cat([layer.scores.rows(q, q + 1)[0] for q in rows], dim=1)
            per_layer.append(pattern.cpu()[:, at, keys])
    return torch.cat(per_layer)
