"""An input of which nothing matters but that every layer of the model runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.calling import needs, reads_vectors
from headwise.hub.features import shapes_of
from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.see.circuits.short import short_input

__all__ = ["example"]

_LENGTH = 6


def example(model: Model, inputs: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What the model can be called with, made up where nothing is given: short texts, ids, an image, sound.

    Args:
        model: from `load`.
        inputs: a batch of the caller's, named as transformers does.

    Raises:
        ModelError: none was given, and nothing can be made up for this model.
    """
    main = getattr(model.module, "main_input_name", "input_ids")
    vectors = _vectors(model.module) if inputs is None else None
    if vectors is not None:
        return vectors
    if inputs is not None or main == "input_ids":
        return short_input(model, inputs)
    own = getattr(model.module, "dummy_inputs", None)
    if isinstance(own, Mapping) and main in own:
        return own
    made = _drawn(main, getattr(model.module, "config", None))
    if made is None:
        raise ModelError(
            f"{model.name} reads {main}, of which nothing can be made up; give inputs={{{main!r}: tensor}}"
        )
    if model.encoder_decoder:
        return {main: made, "decoder_input_ids": torch.arange(1, 1 + _LENGTH)[None]}
    return {main: made}


def _vectors(module: nn.Module) -> Mapping[str, Tensor] | None:
    """Random vectors for torch's own modules; None where it is none of them."""
    if not reads_vectors(module):
        return None
    sizes = (m.embed_dim for m in module.modules() if isinstance(m, nn.MultiheadAttention))
    shape = (2, _LENGTH, next(sizes, 1))
    draw = torch.Generator().manual_seed(0)
    like = next(module.parameters())
    return {name: torch.randn(shape, generator=draw).to(like) for name in needs(module)}


def _drawn(main: str, config: Any) -> Tensor | None:
    shape = next(shapes_of(main, config), None)
    if shape is None:
        return None
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
