"""What a model is given to be counted: rows of a length, of which no value matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.calling import needs, reads_vectors, takes
from headwise.hub.features import shapes_of
from headwise.hub.load import Model
from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import EncoderDecoder, TransformerConfig

__all__ = ["Sizes", "fed", "given_sizes"]

DEFAULT_LENGTH = 512


@dataclass(frozen=True)
class Sizes:
    """How much is read.

    Attributes:
        batch: rows.
        length: positions of each, as asked; None where the model reads no text.
        target: positions that the decoder of an encoder-decoder reads; None of other models.
    """

    batch: int
    length: int | None
    target: int | None

    @property
    def tokens(self) -> int:
        """Of one row: those of a text and of its target."""
        return (self.length or 0) + (self.target or 0)


def fed(
    model: Model, batch: int, length: int | None, target: int | None
) -> tuple[dict[str, Tensor], Sizes]:
    """Rows for a model, by names of transformers.

    Args:
        model: that will read them.
        batch: rows.
        length: positions of each; None = 512, or what the model reads at most. Of a model whose decoder writes but
            whose encoder reads no text, what the decoder reads.
        target: positions that a decoder reads beside an encoder; None = length.

    Raises:
        ConfigError: a number that is no count.
        TextError: longer than the model reads.
        ModelError: nothing can be made up for this model.
    """
    for name, value in (("batch", batch), ("length", length), ("target_length", target)):
        wrong = isinstance(value, bool) or not isinstance(value, int) or value < 1
        if value is not None and wrong:
            raise ConfigError(f"{name} must be a whole number of 1 or more, came {value!r}")
    if target is not None and not model.encoder_decoder:
        raise ConfigError(
            f"target_length={target} came for {model.name}, which has no decoder beside"
        )
    asked = _within(model, length, model.max_length, "length")
    made, own = _source(model, batch, asked)
    given = asked if own else None
    if not model.encoder_decoder:
        return made, Sizes(batch, given, None)
    most = model.max_target_length or model.max_length
    wanted = target or (length if own or length else None) or (None if not own else asked)
    written = _within(model, wanted, most, "target_length")
    if "decoder_input_ids" not in made:
        made["decoder_input_ids"] = _ids(batch, written)
    return made, Sizes(batch, given, written)


def _within(model: Model, length: int | None, most: int | None, name: str) -> int:
    if length is None:
        return min(DEFAULT_LENGTH, most or DEFAULT_LENGTH)
    if most is not None and length > most:
        raise TextError(
            f"{name}={length}, and {model.name} reads {most} positions at most; give fewer"
        )
    return length


def _source(model: Model, batch: int, length: int) -> tuple[dict[str, Tensor], bool]:
    """What it reads, and whether that has the length asked for."""
    module = model.module
    if reads_vectors(module):
        return _vectors(module, batch, length), True
    config = getattr(module, "config", None)
    ours = config if isinstance(config, TransformerConfig) else None
    if ours is not None and ours.features and isinstance(module, EncoderDecoder):
        return {
            "input_features": torch.zeros(batch, ours.features, 2 * ours.encoder_max_length)
        }, False
    main = getattr(module, "main_input_name", "input_ids") if model.foreign else "input_ids"
    if main == "input_ids":
        return {"input_ids": _ids(batch, length)}, True
    shape = next(shapes_of(main, config), None)
    if shape is None:
        own = getattr(module, "dummy_inputs", None)
        if isinstance(own, Mapping) and main in own:
            return {k: v for k, v in own.items() if isinstance(v, Tensor)}, False
        raise ModelError(
            f"{model.name} reads {main}, of which nothing can be made up; give inputs={{{main!r}: tensor}}"
        )
    made = {main: torch.zeros(batch, *shape[1:])}
    if main != "input_ids" and "input_ids" in takes(module) and not model.encoder_decoder:
        made["input_ids"] = _ids(batch, length)
    return made, "input_ids" in made


def _vectors(module: nn.Module, batch: int, length: int) -> dict[str, Tensor]:
    """For torch's own modules, which say where the batch stands."""
    inner = [m for m in module.modules() if isinstance(m, nn.MultiheadAttention)]
    width = inner[0].embed_dim if inner else 1
    first = inner[0].batch_first if inner else True
    shape = (batch, length, width) if first else (length, batch, width)
    return {name: torch.zeros(shape) for name in needs(module)}


def _ids(batch: int, length: int) -> Tensor:
    return torch.full((batch, length), 3, dtype=torch.long)


def given_sizes(inputs: Mapping[str, Any]) -> Sizes:
    """The sizes of a batch of the caller's."""
    shapes: dict[str, Any] = {k: tuple(x.shape) for k, x in inputs.items() if isinstance(x, Tensor)}
    ids = shapes.get("input_ids") or shapes.get("inputs_embeds")
    target = shapes.get("decoder_input_ids")
    first = ids or target or next(iter(shapes.values()), (1,))
    return Sizes(first[0], ids[1] if ids else None, target[1] if target else None)
