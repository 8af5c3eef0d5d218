"""Reach as data for the viewer, and as a page of its own: the map over the layers, and the paths pointed at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from headwise.core.reach import Reach
from headwise.files import replacing
from headwise.show.page.frame import closing, data_element, opening
from headwise.show.reach_words import ReachWords

__all__ = ["reach_data", "reach_page", "runs_of", "save_page"]


def reach_page(reach: Reach, words: ReachWords) -> str:
    """The page of a reach, whole in one file.

    Args:
        reach: of one text; of a batch the first is shown.
        words: the masks it was made of.
    """
    return (
        opening(f"{words.title} – reach", more="body { margin: 0; }\n")
        + data_element("data", reach_data(reach, words))
        + closing("mask.js")
    )


def save_page(text: str, path: str | Path) -> None:
    """Write a page into a file, whole or not at all.

    Raises:
        OutputError: a path that cannot be written.
    """
    with replacing(Path(path), "the page") as place:
        place.write_text(text, encoding="utf-8", errors="replace")


def reach_data(reach: Reach, words: ReachWords) -> dict[str, Any]:
    """A reach as JSON takes it (`flow.py` says how)."""
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
    return data


def _stack(first: Tensor, seen: Sequence[Tensor]) -> dict[str, Any]:
    """A stack of layers, each mask once: rows as runs of a value and how often it stands."""
    masks: list[Any] = []
    known: dict[int, int] = {}
    same: dict[str, int] = {}
    turns = []
    for mask in seen:
        if id(mask) not in known:
            rows = runs_of(mask[0])
            key = json.dumps(rows)
            if key not in same:
                same[key] = len(masks)
                masks.append(rows)
            known[id(mask)] = same[key]
        turns.append(known[id(mask)])
    return {"first": runs_of(first[0]), "masks": masks, "turns": turns}


def runs_of(x: Shaped[Tensor, "query key"]) -> list[list[int]]:
    """Each row as runs: a value and how often it stands, one after the other."""
    return [_run(row) for row in x.cpu().numpy()]


def _run(row: np.ndarray) -> list[int]:
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    counts = np.diff(np.r_[starts, row.size])
    return np.stack([row[starts].astype(np.int64), counts], 1).ravel().tolist()
