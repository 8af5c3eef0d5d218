"""contributions: how much each block's attention and feed-forward network add to the residual stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from headwise.hub.adding import Added, added_by
from headwise.hub.load import Model
from headwise.hub.stream import Block, BlockRun, blocks_of, watched_blocks
from headwise.names import HeadError, LayerId, TextError
from headwise.see.texts.batches import Batch, batches_of, from_inputs
from headwise.see.texts.refusing import check_model, check_target

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["contributions"]

PARTS = ("attention", "cross", "ffn")

_SAYS = {
    "before": "length of the residual stream before the block",
    "stream": "length of the residual stream after the block",
    "attention": "length of what the attention adds",
    "cross": "length of what the cross-attention adds",
    "ffn": "length of what the feed-forward network adds",
    "attention_along": "the part of it along the stream after the block",
    "cross_along": "the part of it along the stream after the block",
    "ffn_along": "the part of it along the stream after the block",
}
_ADDED = "the stream after a block is the stream before it and what its parts add"
_NORMED = "the stream is normed after each addition; what is added is told as it is before the norm"


def contributions(
    model: Model,
    text: str | Mapping[str, Any],
    *,
    target: str | None = None,
    stream: str | None = None,
) -> xr.Dataset:
    """How much each block's attention and feed-forward network add to the residual stream at each token of a text.

    In a model that norms before each part (most), the stream after a block is the one before it and what the parts
    add. A norm behind a part (Gemma) or a factor (Granite) counts as of the part.
    In a model that norms the stream itself (BERT), attrs["says"] tells so: what is added is told before the norm.

    Args:
        model: from `load`.
        text: a text, or a transformers batch of one row.
        target: for an encoder-decoder, what the decoder reads; None = what the model itself writes.
        stream: of an encoder-decoder "encoder" or "decoder"; None = the first.

    Returns:
        Dataset over (layer, token), in the units of the residual stream: `before` and `stream`, the L2 norms of the
        stream before and after the block; `attention`, `ffn` and in a decoder beside an encoder `cross`, those of
        what its parts add; `attention_along`, `ffn_along`, `cross_along`, their components along the stream after
        the block: negative where a part takes away from what the stream becomes.

    Raises:
        TextError: a text that is empty or longer than the model's context, or a batch of several.
        ModelError: a model whose blocks, or what they add, cannot be told.
        HeadError: no stream of this model.
    """
    batch = one_text(model, text, target, "contributions")
    found: dict[LayerId, dict[str, Tensor]] = {}
    normed: set[bool] = set()

    def see(run: BlockRun) -> None:
        if run.id.stream == chosen:
            added = added_by(run)
            found[run.id] = _lengths(added)
            normed.add(added.normed)

    blocks = blocks_of(model, batch.inputs)
    chosen = _stream(blocks, stream)
    with watched_blocks(model, blocks, see, parts=True):
        model.run(batch.inputs)
    return _dataset(model, batch, found, any(normed))


def one_text(model: Model, text: str | Mapping[str, Any], target: str | None, call: str) -> Batch:
    """The batch of one text that a function `call` was given.

    Raises:
        TextError: as the functions say that take one text.
        ModelError: a model that reads no text.
    """
    check_model(model, call)
    if not isinstance(text, str | Mapping):
        raise TextError(f"{call} takes a text or a batch of one row, came {type(text).__name__}")
    check_target(model, target)
    if isinstance(text, str):
        (batch,) = batches_of(model, [text], None if target is None else [target], call)
        return batch
    batch = from_inputs(model, text)
    if batch.size != 1:
        raise TextError(f"{call} takes one text at a time, came a batch of {batch.size}")
    return batch


def _stream(blocks: Sequence[Block], stream: str | None) -> str:
    """The stream asked for, the first one where none is."""
    streams = list(dict.fromkeys(block.id.stream for block in blocks))
    if stream is not None and stream not in streams:
        raise HeadError(
            f"there is no stream {stream!r}: the model's are {', '.join(map(repr, streams))}"
        )
    return streams[0] if stream is None else stream


def _lengths(added: Added) -> dict[str, Tensor]:
    """The lengths at each position."""
    after = added.after.float()
    stream = after.norm(dim=-1)
    found = {"before": added.before.float().norm(dim=-1), "stream": stream}
    names = PARTS if len(added.parts) == 3 else (PARTS[0], PARTS[2])
    for name, part in zip(names, added.parts, strict=True):
        part = part.float()
        found[name] = part.norm(dim=-1)
        found[f"{name}_along"] = (part * after).sum(-1) / stream
    return {name: x.cpu() for name, x in found.items()}


def _dataset(
    model: Model, batch: Batch, found: Mapping[LayerId, Mapping[str, Tensor]], normed: bool
) -> xr.Dataset:
    import xarray as xr

    ids = sorted(found)
    side, keep = batch.side(ids[0].stream, 0, len(found[ids[0]]["stream"]), looks=True)
    names = [name for name in _SAYS if name in found[ids[0]]]
    arrays = {
        name: np.stack([found[id][name][keep].double().numpy() for id in ids]) for name in names
    }
    unit = "of the residual stream"
    return xr.Dataset(
        {
            name: (("layer", "token"), x, {"long_name": _SAYS[name], "units": unit})
            for name, x in arrays.items()
        },
        coords={
            "layer": [id.layer if id.stream == "" else str(id) for id in ids],
            "token": [token.text for token in side.tokens],
        },
        attrs={"model": model.name, "stream": ids[0].stream, "says": _NORMED if normed else _ADDED},
    )
