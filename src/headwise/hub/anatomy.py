"""Anatomy: which modules of a model are its attention layers, and what they are called.

A layer is found by what its code does (it calls our MultiHeadAttention's attend, transformers' attention interface
or torch's multi_head_attention_forward, or writes attention out by hand), never by the model's family. Its id comes
from its path: the first number is the layer, the words around it say the stream where a model has several.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from torch import nn

from headwise.hub.routes.code import writes_attention
from headwise.hub.routes.torch_attention import is_torch_attention
from headwise.names import LayerId, ModelError
from headwise.nn import MultiHeadAttention

_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|src_attn", re.IGNORECASE)
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_COMPUTES = {
    *("softmax", "matmul", "bmm", "baddbmm", "einsum"),
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
}


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
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Paths and classes of modules that compute attention by themselves: they are in no record."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, in order; ("",) where the model has one stack."""
        return tuple(dict.fromkeys(layer.id.stream for layer in self.layers))

    @property
    def left_out(self) -> str:
        """One line on the attention that is in no record; "" where all is."""
        if not self.unseen:
            return ""
        classes = ", ".join(dict.fromkeys(self.unseen.values()))
        return (
            f"{len(self.unseen)} attention modules ({classes}) do not go through transformers' "
            "attention interface and are left out of every record"
        )


def anatomy_of(model: nn.Module) -> Anatomy:
    """Find the attention layers of a model of ours, of transformers or of torch.nn.

    Raises:
        ModelError: no module of the model passes attend, transformers' attention interface or torch's.
    """
    found = {path: module for path, module in model.named_modules() if is_attention(module)}
    by_hand = [path for path, module in found.items() if by_itself(type(module))]
    outer = {path for path in by_hand if any(p != path and _within(p, path) for p in found)}
    hidden = {path: type(m).__name__ for path, m in model.named_modules() if hides(type(m))}
    hidden |= {path: type(found.pop(path)).__name__ for path in outer}  # what holds attention
    said = _said(model)
    if not found:
        raise ModelError(
            f"{type(model).__name__} cannot be looked into: none of its modules goes through transformers' "
            "attention interface, headwise.nn.MultiHeadAttention or torch.nn.MultiheadAttention; use a model class "
            "of the newer style (docs/en/models.md), or build its attention from headwise.nn or torch.nn"
        )
    spoken = {path: said.get(path, path) for path in found}
    if len(set(spoken.values())) < len(found):  # words that something else has for its path
        spoken = {path: path for path in found}
    names = _stream_names([*spoken.values(), *hidden])
    paths: dict[str, list[str]] = defaultdict(list)
    for path in spoken.values():
        paths[names[_template(path)]].append(path)
    ids = {path: id for stream in paths for path, id in _layer_ids(stream, paths[stream])}
    layers = tuple(Layer(ids[spoken[path]], path, module) for path, module in found.items())
    return Anatomy(layers, hidden)


def stream_layers(model: nn.Module, anatomy: Anatomy, paths: Collection[str]) -> dict[str, LayerId]:
    """Ids for other modules of the layers, named and numbered like the attention beside them.

    Args:
        model: that holds them.
        anatomy: its attention.
        paths: of one kind of module, at most one for each layer; where there are more, they are counted.
    """
    said = _said(model)
    stacks = {
        _stack(said.get(layer.path, layer.path)): layer.id.stream
        for layer in reversed(anatomy.layers)
        if layer.id.stream != "cross"
    }
    spoken = {said.get(path, path): path for path in paths}
    names = _stream_names([*spoken]) if spoken else {}
    streams: dict[str, list[str]] = defaultdict(list)
    for path in spoken:
        streams[stacks.get(_stack(path), names[_template(path)])].append(path)
    return {spoken[p]: id for stream in streams for p, id in _layer_ids(stream, streams[stream])}


def _stack(path: str) -> str:
    """What comes before the number of the layer."""
    return _template(path).partition("#")[0]


def is_attention(module: nn.Module) -> bool:
    """Whether this module's own forward computes attention in a way we can see."""
    return attends(type(module))


def attends(cls: type) -> bool:
    """Whether modules of this class compute attention in a way we can see."""
    ours = issubclass(cls, MultiHeadAttention) or is_torch_attention(cls)
    return ours or routes(cls) or writes_attention(cls)


def by_itself(cls: type) -> bool:
    """Whether modules of this class write attention out by hand, in a way that can be followed."""
    ours = issubclass(cls, MultiHeadAttention) or is_torch_attention(cls)
    return not ours and not routes(cls) and writes_attention(cls)


def routes(cls: type) -> bool:
    """Whether modules of this class go through transformers' attention interface."""
    forward = getattr(cls, "forward", None)
    code = None if forward is None else getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and _INTERFACE in code.co_names


def hides(cls: type) -> bool:
    """Whether modules of this class compute attention by themselves: called attention, and it is in their code."""
    if "Attention" not in cls.__name__ or attends(cls):
        return False
    methods = [inspect.unwrap(x) for x in vars(cls).values() if callable(x)]
    names = [getattr(x, "__code__", None) for x in methods]
    return any(_COMPUTES & set(code.co_names) for code in names if code is not None)


def _layer_ids(stream: str, paths: list[str]) -> Iterator[tuple[str, LayerId]]:
    """The layers of a stream by the first number of their paths, or counted where that does not tell them apart."""
    found = [re.search(r"\d+", path) for path in paths]
    numbers = [int(match.group()) for match in found if match is not None]
    if len(set(numbers)) < len(paths):
        numbers = list(range(len(paths)))
    for path, number in zip(paths, numbers, strict=True):
        yield path, LayerId(stream, number)


def _template(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _within(path: str, outer: str) -> bool:
    return not outer or path.startswith(f"{outer}.")


def _said(model: nn.Module) -> dict[str, str]:
    """Paths within torch's stacks in words that tell the stream, where the paths themselves need not.

    The one nn.TransformerEncoder and the one nn.TransformerDecoder of a model are its encoder and decoder,
    and what torch names multihead_attn is a decoder layer's cross-attention.
    """
    modules = dict(model.named_modules())
    said: dict[str, str] = {}
    for kind, name in ((nn.TransformerEncoder, "encoder"), (nn.TransformerDecoder, "decoder")):
        stacks = [path for path, module in modules.items() if isinstance(module, kind)]
        if len(stacks) == 1:
            start = f"{stacks[0]}." if stacks[0] else ""
            inside = [path for path in modules if path.startswith(start)]
            said |= {path: f"{name}.{path[len(start) :]}" for path in inside}
    for path, module in modules.items():
        if isinstance(module, nn.TransformerDecoderLayer):
            cross = f"{path}.multihead_attn".lstrip(".")
            said[cross] = said.get(cross, cross).replace("multihead_attn", "cross_attn")
    return said


def _stream_names(found: Collection[str]) -> dict[str, str]:
    """A short name for each kind of path: "" alone, else encoder, decoder, cross or the tower's name."""
    templates = list(dict.fromkeys(_template(path) for path in found))
    if len(templates) == 1:
        return {templates[0]: ""}
    names = {template: _stream_name(template, templates) for template in templates}
    numbered = {names[template] for template in templates if "#" in template}
    for template, name in names.items():
        if "#" not in template and name in numbered and name in template.split("."):
            after = template.split(".")[template.split(".").index(name) + 1 :]
            names[template] = "_".join([name, *after[:1]])  # no layer of the tower: what pools it
    return names


def _stream_name(template: str, templates: list[str]) -> str:
    if _is_cross(template):
        return "cross"
    plain = [t for t in templates if not _is_cross(t)]
    stacks = {tuple(t.partition("#")[0].strip(".").split(".")) for t in plain}
    if len(stacks) == 1:
        return "" if len(plain) == len(templates) else "decoder"
    shared = sum(
        1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*stacks, strict=False))
    )
    own = template.partition("#")[0].strip(".").split(".")[shared:]
    return own[0] if own else "decoder"


def _is_cross(template: str) -> bool:
    before, _, after = template.partition("#")
    return _CROSS.search(after or before.rpartition(".")[2]) is not None
