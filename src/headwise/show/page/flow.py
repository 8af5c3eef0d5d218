"""The chunks "reach" and "flow" of a scene: what its masks allow, and what flows.

`web/viewer/reach_data.js` and `flow.js` read them. "reach" is what `headwise mask --html` shows too (`reach.py`):

    layers, length, start   how many layers (blocks), positions, and the first one that comes out of no cache
    own, across, encoder    stacks: {first: rows, masks: [rows, ...], turns: [number of the mask of each layer]}
    source_length           positions of the encoder, with `across` and `encoder`
    masks                   [{where, text, layers}], layers counted from 1
    ids                     of a record: {own, encoder}: the ids of the layers
    heads                   of a record: [[layer id, [mask number, ...]]] where heads of a layer have their own masks

where rows are runs [value, how often, ...]; of `first` a value is after how many layers, 0 itself, -1 never.

"flow" is a list of what `Flow.as_dict` tells, of each stream measured, and

    side, source            numbers of the texts looked at and edited
    moved                   of each layer the base64 of bytes [query, key tried]: 0 = no more than rounding, else
                            1 + 20 * log10(moved * 1e8), up to 255
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headwise.check.flow.flow import Flow
from headwise.core.masks import Mask
from headwise.see.reaching import reach_of, seen_in
from headwise.see.record import LayerRecord, Record, Side
from headwise.show.page.reach import reach_data, runs_of
from headwise.show.reach_words import ReachWords

__all__ = ["told_flow", "told_reach"]

_LONGEST = 60
"""A mask in more letters than this is not written out."""


def told_reach(record: Record) -> dict[str, Any]:
    """The chunk "reach" of a record: the reach of the masks its model attended with."""
    reach = reach_of(record)
    by_stream: dict[str, list[LayerRecord]] = {}
    for id, layer in record.layers.items():
        by_stream.setdefault(id.stream, []).append(layer)
    crossed = reach.encoder is not None
    own = by_stream["decoder"] if crossed else next(iter(by_stream.values()))
    words = ReachWords(
        _written(own),
        _written(by_stream["cross"]) if crossed else (),
        _written(by_stream["encoder"]) if crossed else (),
    )
    data = reach_data(reach, words)
    data["ids"] = {"own": [str(layer.id) for layer in own]}
    if crossed:
        data["ids"]["encoder"] = [str(layer.id) for layer in by_stream["encoder"]]
    data["heads"] = _by_head(record)
    return data


def told_flow(flows: Sequence[Flow], record: Record) -> list[dict[str, Any]]:
    """The chunk "flow" of a record of the same text.

    Args:
        flows: of one stream or several.
        record: whose texts are shown.
    """
    return [
        {
            **flow.as_dict(),
            "side": _number(record, flow.queries),
            "source": _number(record, flow.keys),
            "moved": [_levels(x, floor) for x, floor in zip(flow.moved, flow.floor, strict=True)],
        }
        for flow in flows
    ]


def _levels(moved: np.ndarray, floor: float) -> str:
    with np.errstate(divide="ignore"):
        levels = 1 + 20 * (np.log10(np.minimum(moved, 1e9)) + 8)
    found = np.where(moved > floor, np.clip(np.rint(levels), 1, 255), 0)
    return base64.b64encode(found.astype(np.uint8).tobytes()).decode()


def _number(record: Record, side: Side) -> int:
    return next((i for i, one in enumerate(record.sides) if one.tokens == side.tokens), 0)


def _written(layers: Sequence[LayerRecord]) -> tuple[str, ...]:
    """The mask of each layer, as it is written."""
    return tuple(_said(layer.scores.mask) for layer in layers)


def _said(mask: Mask | None) -> str:
    """A mask as it is written, but for padding, which a record has none of."""
    text = "full" if mask is None else repr(mask).replace("()", "")
    text = (
        " & ".join(part for part in text.split(" & ") if not part.startswith("padding(")) or "full"
    )
    return text if len(text) <= _LONGEST else "as the model gave it"


def _by_head(record: Record) -> list[Any]:
    """The layers whose heads see different keys: for each head the number of its mask, and the masks' rows."""
    found = []
    for id, layer in record.layers.items():
        seen = seen_in(layer)
        if len(seen) == 1:
            continue
        masks, turns = torch.unique(seen.flatten(1), dim=0, return_inverse=True)
        rows = [runs_of(mask.view(seen.shape[1:])) for mask in masks]
        found.append([str(id), turns.tolist(), rows])
    return found
