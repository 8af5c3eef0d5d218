"""What an encoder of no text reads where nothing was given: the features of sound that its config describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.check.reading.given import Given
from headwise.check.running.subject import Subject

__all__ = ["features_of"]

_SHAPES: Mapping[str, tuple[Callable[[Any], tuple[int, ...]], ...]] = {
    "input_features": (
        lambda config: (1, config.num_mel_bins, 2 * config.max_source_positions),
        lambda config: (1, 40, config.input_feat_per_channel * config.input_channels),
    ),
}
"""Under the name of an encoder's input, the shapes that a config says: bands x frames, frames x bands."""


def features_of(subject: Subject) -> Tensor | None:
    """One row of what a model's encoder reads: its class's own example, or drawn; None where neither is known."""
    name = subject.signature.source
    if name is None:
        return None
    own = getattr(subject.module, "dummy_inputs", None)
    example = own.get(name) if isinstance(own, Mapping) else None
    if isinstance(example, Tensor):
        return example[:1]
    config = getattr(subject.module, "config", None)
    for shape in _SHAPES.get(name, ()):
        try:
            size = shape(config)
        except (AttributeError, TypeError):  # another kind of config
            continue
        generator = torch.Generator().manual_seed(subject.seed)
        x = torch.randn(size, generator=generator)
        if _reads(subject, x):
            return x
    return None


def _reads(subject: Subject, x: Tensor) -> bool:
    try:
        subject.run(Given(torch.arange(1, 8)[None], source=x))
    except Exception:  # whatever a model raises on features that are not its own
        return False
    return True
