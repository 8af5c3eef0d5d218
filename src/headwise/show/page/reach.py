"""Reach as a page: the map with a slider over the layers, and the paths of what is pointed at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from headwise.core.reach import Reach
from headwise.show.page.frame import page
from headwise.show.reach_words import ReachWords

__all__ = ["reach_page"]


def reach_page(reach: Reach, words: ReachWords) -> str:
    """The page of a reach, whole in one file.

    Args:
        reach: of one text; of a batch the first is shown.
        words: the masks it was made of.
    """
    data: dict[str, Any] = {
        "masks": words.listed(),
        "layers": reach.layers,
        "length": reach.first.shape[1],
        "start": reach.start,
        "own": _stack(reach.first, reach.seen),
    }
    if reach.memory is not None and reach.encoder is not None:
        data["source_length"] = reach.memory.shape[2]
        data["across"] = _stack(reach.memory, reach.across)
        data["encoder"] = _stack(reach.encoder.first, reach.encoder.seen)
    return page("reach", f"{words.title} – reach", data)


def _stack(first: Tensor, seen: Sequence[Tensor]) -> dict[str, Any]:
    """A stack of layers, each mask once: rows as runs of a value and how often it stands."""
    masks: list[Any] = []
    known: dict[str, int] = {}
    turns = []
    for rows in (_runs(mask) for mask in seen):
        key = json.dumps(rows)
        if key not in known:
            known[key] = len(masks)
            masks.append(rows)
        turns.append(known[key])
    return {"first": _runs(first), "masks": masks, "turns": turns}


def _runs(x: Tensor) -> list[list[int]]:
    return [_run(row) for row in x[0].cpu().numpy().astype(np.int64)]


def _run(row: np.ndarray) -> list[int]:
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    counts = np.diff(np.r_[starts, row.size])
    return [int(n) for n in np.stack([row[starts], counts], 1).ravel()]
