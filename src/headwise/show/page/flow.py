"""The chunks "reach" and "flow" of a scene: what its masks allow, and what flows.

`web/viewer/masks/` (`reach_data.js`, `flow.js`) reads them. "reach" is what `headwise mask --page` shows too:

    layers, length, start   how many layers (blocks), positions, and the first one that comes out of no cache
    own, across, encoder    stacks: {first: rows, masks: [rows, ...], turns: [number of the mask of each layer]}
    source_length           positions of the encoder, with `across` and `encoder`
    masks                   [{where, text, layers}], layers counted from 1
    ids                     of a record: {own, encoder}: the ids of the layers
    heads                   of a record: [[layer id, [mask number, ...]]] where heads differ

where rows are runs [value, how often, ...]; of `first` a value is after how many layers, 0 itself, -1 never.

"flow" is {flows: [...]}: what `Flow.as_dict` tells of each stream measured, and

    side, source            numbers of the texts looked at and edited
    moved                   of each layer the base64 of bytes [query, key tried]: 0 = no more than rounding, else
                            1 + 20 * log10(moved * 1e8), up to 255
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.check.flow.flow import Flow
from headwise.check.flow.flowing import flow
from headwise.core.masks import Mask
from headwise.core.reach import Reach
from headwise.core.recognise import recognise
from headwise.hub.load import Model
from headwise.see.reaching import one_mask, reach_of, seen_in
from headwise.see.record import LayerRecord, Record
from headwise.show.page.measuring import inputs_of
from headwise.show.page.reach import reach_data, runs_of
from headwise.show.page.sides import side_number
from headwise.show.reach_words import ReachWords

__all__ = ["flow_chunk", "told_flow", "told_reach"]

_LONGEST = 60
"""A mask in more letters than this is not written out."""


def told_reach(record: Record) -> dict[str, Any]:
    """The chunk "reach" of a record: the reach of the masks its model attended with."""
    reach = reach_of(record)
    by_stream = record.stacks
    crossed = reach.encoder is not None
    own = by_stream["decoder"] if crossed else next(iter(by_stream.values()))
    words = ReachWords(
        _written(own, reach.seen),
        _written(by_stream["cross"], reach.across) if crossed else (),
        _written(by_stream["encoder"], _seen_by(reach)) if crossed else (),
    )
    data = reach_data(reach, words)
    data["ids"] = {"own": [str(layer.id) for layer in own]}
    if crossed:
        data["ids"]["encoder"] = [str(layer.id) for layer in by_stream["encoder"]]
    data["heads"] = _by_head(record)
    return data


def _seen_by(reach: Reach) -> tuple[Tensor, ...]:
    assert reach.encoder is not None
    return reach.encoder.seen


def told_flow(
    model: Model, record: Record, *, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Measure the chunk "flow" of a record, of all streams that read token ids.

    Args:
        model: that made it.
        record: of one text.
        progress: called as progress(edits done, edits in all), for each stream.

    Raises:
        ModelError: a record of something else than token ids, or a model whose blocks cannot be told.
    """
    inputs = inputs_of(record)
    streams = dict.fromkeys(id.stream for id in record.layers)
    return flow_chunk(
        [flow(model, inputs, stream=one, record=record, progress=progress) for one in streams],
        record,
    )


def flow_chunk(flows: Sequence[Flow], record: Record) -> dict[str, Any]:
    """The chunk "flow" of a record of the same text.

    Args:
        flows: of one stream or several.
        record: whose texts are shown.
    """
    return {"flows": [_flow(one, record) for one in flows]}


def _flow(found: Flow, record: Record) -> dict[str, Any]:
    edited = "encoder" if found.stream == "cross" else found.stream
    levels = [_levels(x, floor) for x, floor in zip(found.moved, found.floor, strict=True)]
    return {
        **found.as_dict(),
        "side": side_number(record, found.stream),
        "source": side_number(record, edited),
        "moved": levels,
    }


def _levels(moved: np.ndarray, floor: float) -> str:
    with np.errstate(divide="ignore"):
        levels = 1 + 20 * (np.log10(np.minimum(moved, 1e9)) + 8)
    found = np.where(moved > floor, np.clip(np.rint(levels), 1, 255), 0)
    return base64.b64encode(found.astype(np.uint8).tobytes()).decode()


def _written(layers: Sequence[LayerRecord], seen: Sequence[Tensor]) -> tuple[str, ...]:
    """The mask of each layer, as it is written; layers that see the same are told so once."""
    said: dict[int, str] = {}
    for layer, one in zip(layers, seen, strict=True):
        if id(one) not in said:
            mask = layer.scores.mask
            if mask is not None and repr(mask).startswith("tensor("):
                mask = recognise(one[None], one.shape[-1] - one.shape[-2])
            said[id(one)] = _said(mask)
    return tuple(said[id(one)] for one in seen)


def _said(mask: Mask | None) -> str:
    """A mask as it is written, but for padding, which a record has none of."""
    text = "full" if mask is None else repr(mask).replace("()", "")
    text = (
        " & ".join(part for part in text.split(" & ") if not part.startswith("padding(")) or "full"
    )
    if text.startswith("tensor(") or len(text) > _LONGEST:
        return "as the model gave it"
    return text


def _by_head(record: Record) -> list[Any]:
    """The layers whose heads see different keys: for each head the number of its mask, and the masks' rows."""
    found = []
    for id, layer in record.layers.items():
        seen = None if one_mask(layer) else seen_in(layer)
        if seen is None or len(seen) == 1:
            continue
        masks, turns = torch.unique(seen.flatten(1), dim=0, return_inverse=True)
        rows = [runs_of(mask.view(seen.shape[1:])) for mask in masks]
        found.append([str(id), turns.tolist(), rows])
    return found
