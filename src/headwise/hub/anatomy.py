"""Anatomy: which modules of a model are its attention layers, and what they are called.

A layer is found by what its code does (it calls our MultiHeadAttention's attend, or transformers' attention
interface), never by the model's family. Its id comes from its path: the first number is the layer, and the words
around it say the stream where a model has more than one.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from dataclasses import dataclass

from torch import nn

from headwise.names import LayerId, ModelError
from headwise.nn import MultiHeadAttention

_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|src_attn", re.IGNORECASE)
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention module: its id, its path in the model, and itself.

    A module that runs several times in one pass (ALBERT shares one over all layers) appears once, with the
    id of its first run; later runs count on from there.
    """

    id: LayerId
    path: str
    module: nn.Module


@dataclass(frozen=True)
class Anatomy:
    """The attention layers of a model, in the order of their paths."""

    layers: tuple[Layer, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, in order; ("",) where the model has one stack."""
        return tuple(dict.fromkeys(layer.id.stream for layer in self.layers))


def anatomy_of(model: nn.Module) -> Anatomy:
    """Find the attention layers of a model of ours or of transformers.

    Raises:
        ModelError: no module of the model passes attend or transformers' attention interface.
    """
    found = {path: module for path, module in model.named_modules() if is_attention(module)}
    if not found:
        raise ModelError(
            f"{type(model).__name__} cannot be looked into: none of its modules goes through transformers' "
            "attention interface or headwise.nn.MultiHeadAttention; use a model class of the newer style "
            "(docs/models.md), or build its attention from headwise.nn"
        )
    names = _stream_names(found)
    layers = []
    counts: dict[str, int] = defaultdict(int)
    taken: set[LayerId] = set()
    for path, module in found.items():
        stream = names[_template(path)]
        number = re.search(r"\d+", path)
        id = LayerId(stream, int(number.group()) if number else counts[stream])
        if id in taken:
            id = LayerId(stream, counts[stream])
        taken.add(id)
        counts[stream] += 1
        layers.append(Layer(id, path, module))
    return Anatomy(tuple(layers))


def is_attention(module: nn.Module) -> bool:
    """Whether this module's own forward computes attention in a way we can see."""
    if isinstance(module, MultiHeadAttention):
        return True
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and _INTERFACE in code.co_names


def _template(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _stream_names(found: dict[str, nn.Module]) -> dict[str, str]:
    """A short name for each kind of path: "" alone, else encoder, decoder, cross or the tower's name."""
    templates = list(dict.fromkeys(_template(path) for path in found))
    if len(templates) == 1:
        return {templates[0]: ""}
    return {template: _stream_name(template, templates) for template in templates}


def _stream_name(template: str, templates: list[str]) -> str:
    before, _, after = template.partition("#")
    if _CROSS.search(after):
        return "cross"
    stacks = {t.partition("#")[0] for t in templates}
    if len(stacks) == 1 and not any(_CROSS.search(t.partition("#")[2]) for t in templates):
        return ""
    words = before.strip(".").split(".")
    shared = set.intersection(*(set(stack.strip(".").split(".")) for stack in stacks))
    own = [word for word in words if word not in shared]
    if not own:
        return "decoder"
    return next((word for word in own if word in ("encoder", "decoder")), own[0])
