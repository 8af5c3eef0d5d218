"""How a model is run to be timed: a whole pass, a pass that fills its cache, one more token.

What it reads is made up, as what it says does not matter to the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headwise.check.running.filling import Held, fill_of
from headwise.cut.example import example
from headwise.hub.load import Model
from headwise.names import TextError

__all__ = ["Drive", "drive_of"]


@dataclass(frozen=True, eq=False)
class Drive:
    """A model with something to read.

    Attributes:
        length: tokens of each row; None where it reads no text.
        forward: the whole pass, without a cache.
        fill: the pass that fills a cache, and what it holds then; None where the model has no cache.
    """

    length: int | None
    forward: Callable[[], object]
    fill: Callable[[], Held] | None


def drive_of(model: Model, batch: int, length: int, room: int) -> Drive:
    """Make up rows for a model, and find how it reads them.

    Args:
        model: from `load`.
        batch: rows.
        length: tokens of each row, where the model reads text.
        room: how many tokens will be decoded after them.

    Raises:
        TextError: a model that reads fewer tokens.
        ModelError: nothing can be made up for this model.
    """
    inputs = dict(example(model))
    text = "input_ids" in inputs
    if text:
        most = model.max_length
        if most is not None and length + room > most:
            raise TextError(
                f"{model.name} reads {most} tokens at most, and the longest of this timing is {length} + {room}; "
                "give lengths= that fit"
            )
        inputs["input_ids"] = _tiled(inputs["input_ids"], batch, length)
    else:
        inputs = {k: _rows(v, batch) for k, v in inputs.items()}
    inputs.pop("attention_mask", None)
    inputs.pop("decoder_attention_mask", None)
    inputs.pop("token_type_ids", None)
    if "decoder_input_ids" in inputs:
        inputs["decoder_input_ids"] = _tiled(inputs["decoder_input_ids"], batch, 1)
    inputs = {k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in inputs.items()}
    fill = fill_of(model, inputs, length, room)
    return Drive(length if text else None, lambda: model.outputs(inputs), fill)


def _tiled(ids: Tensor, batch: int, length: int) -> Tensor:
    """Rows of this length made of some ids, over and over."""
    flat = ids.flatten()
    return flat.repeat(-(-batch * length // len(flat)))[: batch * length].view(batch, length)


def _rows(x: Any, batch: int) -> Any:
    """The first row of an input, so many times."""
    return x[:1].expand(batch, *x.shape[1:]) if isinstance(x, Tensor) and x.dim() else x
