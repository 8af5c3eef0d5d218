"""An input of which nothing matters but that every layer of the model runs on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.calling import needs, reads_vectors
from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.see.circuits.short import short_input

__all__ = ["example"]

_LENGTH = 6

_SHAPES: Mapping[str, tuple[Callable[[Any], tuple[int, ...]], ...]] = {
    "pixel_values": (
        lambda c: (1, c.num_channels, *_pair(c.image_size)),
        lambda c: (1, c.vision_config.num_channels, *_pair(c.vision_config.image_size)),
    ),
    "input_features": (
        lambda c: (1, c.num_mel_bins, 2 * c.max_source_positions),
        lambda c: (1, 40, c.input_feat_per_channel * c.input_channels),
    ),
    "input_values": (lambda c: (1, 4000),),
}
"""Under the name of what a model reads, the shapes that a config says, tried in turn."""


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
    for shape in _SHAPES.get(main, ()):
        try:
            size = shape(config)
        except (AttributeError, TypeError):  # another kind of config
            continue
        return torch.randn(size, generator=torch.Generator().manual_seed(0))
    return None


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])
