"""What a model of no text can be given: the shapes of images and sound that its config describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["shapes_of"]

_SHAPES: Mapping[str, tuple[Callable[[Any], tuple[int, ...]], ...]] = {
    "pixel_values": (
        lambda config: (1, config.num_channels, *_pair(config.image_size)),
        lambda config: (
            *(1, config.vision_config.num_channels),
            *_pair(config.vision_config.image_size),
        ),
    ),
    "input_features": (
        lambda config: (1, config.num_mel_bins, 2 * config.max_source_positions),
        lambda config: (1, 40, config.input_feat_per_channel * config.input_channels),
    ),
    "input_values": (lambda config: (1, 4000),),
}
"""Under the name of what a model reads, the shapes of one row: channels x height x width, bands x frames or
frames x bands, samples."""


def shapes_of(name: str, config: Any) -> Iterator[tuple[int, ...]]:
    """The shapes that one row of an input of this name may have, by what a config says."""
    for shape in _SHAPES.get(name, ()):
        try:
            yield shape(config)
        except (AttributeError, TypeError):  # another kind of config
            continue


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])
