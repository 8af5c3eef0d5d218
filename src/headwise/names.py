"""The words of the project: ids of heads and neurons, and the errors everything raises.

Floor 0: this module imports nothing of ours.

Errors, each carrying one clear line (what was wrong, what came, what to do):

    HeadwiseError
    |- ConfigError     a model configuration that cannot be built, or a field or weight unknown to us
    |- ShapeError      tensors whose shapes do not fit together
    |- MaskError       a mask of the wrong type, dtype, shape or length
    |- HeadError       a head's or neuron's id that cannot be read, or that the model does not have
    |- ModelError      a model that cannot be found, read or looked into
    |- TextError       a text that is empty, too long, or not text
    '- OutputError     a result that cannot be written
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ConfigError",
    "HeadError",
    "HeadId",
    "HeadwiseError",
    "LayerId",
    "MaskError",
    "ModelError",
    "NeuronId",
    "OutputError",
    "ShapeError",
    "TextError",
    "spans",
]


class HeadwiseError(Exception):
    """Everything headwise raises on a user's mistake."""


class ConfigError(HeadwiseError, ValueError):
    """A model configuration that cannot be built, or a field or weight that is not known."""


class ShapeError(HeadwiseError, ValueError):
    """Tensors whose shapes do not fit together."""


class MaskError(HeadwiseError, ValueError):
    """A mask of the wrong type, dtype, shape or length."""


class HeadError(HeadwiseError, ValueError):
    """The id of a head or neuron that cannot be read, or that the model does not have."""


class ModelError(HeadwiseError, RuntimeError):
    """A model that cannot be found, read or looked into."""


class TextError(HeadwiseError, ValueError):
    """A text that is empty, longer than the model's context, or not text."""


class OutputError(HeadwiseError, RuntimeError):
    """A result that cannot be written."""


@dataclass(frozen=True, order=True)
class LayerId:
    """One attention layer: `layer` counts from 0; `stream` is "" where a model has one stack.

    Encoder-decoders have the streams "encoder", "decoder" and "cross"; models of several towers
    use the tower's name. Printed `18` or `cross.0`.
    """

    stream: str
    layer: int

    def __str__(self) -> str:
        return f"{self.stream}.{self.layer}" if self.stream else str(self.layer)

    @classmethod
    def parse(cls, text: str) -> LayerId:
        """Read `18` or `cross.0`.

        Raises:
            HeadError: the text is not a layer's id.
        """
        found = _read_id(text, 1)
        if found is None:
            raise HeadError(f"{text!r} is not a layer id; write it as 18 or cross.0")
        return cls(*found)

    def free(self, taken: Container[LayerId]) -> LayerId:
        """This id, or the next one that is not taken: of a layer that runs again in one pass."""
        id = self
        while id in taken:
            id = LayerId(id.stream, id.layer + 1)
        return id

    def head(self, head: int) -> HeadId:
        """The id of query head `head` of this layer."""
        return HeadId(self.stream, self.layer, head)

    def neuron(self, neuron: int) -> NeuronId:
        """The id of neuron `neuron` of this layer's feed-forward network."""
        return NeuronId(self.stream, self.layer, neuron)


def spans(ids: Iterable[LayerId] | Iterable[HeadId]) -> str:
    """From which to which there are, for each stream: `0 to 5`, or `encoder.0 to encoder.3, cross.0 to cross.3`."""
    by_stream: dict[str, list[Any]] = {}
    for id in ids:
        by_stream.setdefault(id.stream, []).append(id)
    return ", ".join(f"{min(held)} to {max(held)}" for held in by_stream.values())


@dataclass(frozen=True, order=True)
class HeadId:
    """One query head, 0-based: printed `18.6`, or `cross.0.2` in an encoder-decoder."""

    stream: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer_id}.{self.head}"

    @property
    def layer_id(self) -> LayerId:
        """The layer this head belongs to."""
        return LayerId(self.stream, self.layer)

    @classmethod
    def parse(cls, text: str | HeadId) -> HeadId:
        """Read `18.6` or `cross.0.2`.

        Raises:
            HeadError: the text is not a head id.
        """
        if isinstance(text, HeadId):
            return text
        found = _read_id(text, 2)
        if found is None:
            raise HeadError(
                f"{text!r} is not a head id; write layer.head, for instance 18.6 or cross.0.2"
            )
        return cls(*found)


@dataclass(frozen=True, order=True)
class NeuronId:
    """One neuron of a feed-forward network, 0-based: printed `12.345`, or `decoder.0.2`."""

    stream: str
    layer: int
    neuron: int

    def __str__(self) -> str:
        return f"{self.layer_id}.{self.neuron}"

    @property
    def layer_id(self) -> LayerId:
        """The layer this neuron belongs to."""
        return LayerId(self.stream, self.layer)

    @classmethod
    def parse(cls, text: str | NeuronId) -> NeuronId:
        """Read `12.345` or `decoder.0.2`.

        Raises:
            HeadError: the text is not a neuron's id.
        """
        if isinstance(text, NeuronId):
            return text
        found = _read_id(text, 2)
        if found is None:
            raise HeadError(
                f"{text!r} is not a neuron's id; write layer.neuron, for instance 12.345 or decoder.0.2"
            )
        return cls(*found)


def _read_id(text: object, numbers: int) -> tuple[Any, ...] | None:
    """The stream and so many numbers of an id, None where the text is none."""
    form = r"(?:([A-Za-z_][A-Za-z_0-9]*)\.)?" + r"\.".join(["([0-9]+)"] * numbers)
    match = re.fullmatch(form, text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    stream, *places = match.groups()
    return (stream or "", *map(int, places))
