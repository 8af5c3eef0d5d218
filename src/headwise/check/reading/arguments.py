"""Under which names a forward or function takes what an audit gives it: a table of names, no model family.

What reads the text is its first argument, but in an encoder-decoder, whose first argument is the source.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from headwise.check.reading.given import Given, positions_of
from headwise.hub.calling import PADDING, TARGET_PADDING
from headwise.names import ModelError

__all__ = ["DOCUMENTS", "FILLED", "HIDING", "POSITIONS", "REAL", "Signature", "signature_of"]

_TARGET = (
    "decoder_input_ids",
    "prev_output_tokens",
    "target_ids",
    "tgt_ids",
    "tgt_tokens",
    "tgt",
    "target",
    "targets",
)
_SOURCE = ("source_ids", "src_ids", "src", "src_tokens", "source", "encoder_input_ids")
_MEMORY = ("memory", "encoder_hidden_states", "encoder_output", "encoder_outputs")
_MEMORY_PADDING = ("memory_key_padding_mask", "memory_padding_mask")
_MEMORY_REAL = ("encoder_attention_mask",)
REAL = ("attention_mask",)
_LENGTHS = ("lengths", "seq_lens", "seqlens", "seq_lengths", "sequence_lengths", "input_lengths")
POSITIONS = ("position_ids", "positions", "pos_ids")
DOCUMENTS = ("documents", "document_ids", "doc_ids", "segment_ids", "seq_idx")
_WEIGHTS = (
    "output_attentions",
    "need_weights",
    "return_weights",
    "return_attention",
    "return_attentions",
    "return_attn",
    "return_attn_weights",
)
_CACHES = (
    "past_key_values",
    "past_key_value",
    "past",
    "cache",
    "kv_cache",
    "cache_params",
    "cache_position",
    "mems",
    "use_cache",
    "use_mems",
)

_TEXTS = ("ids", "idx", "tokens", "embeds")
"""How the names of texts end."""

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

HIDING = (*PADDING, *REAL, *_LENGTHS)
"""Names under which the padding of what is read comes."""

FILLED = frozenset(
    (
        *HIDING,
        *TARGET_PADDING,
        *("decoder_attention_mask", "decoder_position_ids"),
        *_MEMORY_PADDING,
        *_MEMORY_REAL,
        *POSITIONS,
        *DOCUMENTS,
        *_WEIGHTS,
        *_CACHES,
    )
)
"""What an audit says itself."""


class Signature:
    """The names that a forward takes, and what goes under which.

    Attributes:
        names: of its arguments, in order; without *args and **kwargs.
        foreign: whether it is a model of transformers, whose names are known.
        leading: whether the text goes in first, without its name.
        open: whether it takes names beside these.
        needed: those of its arguments that must be given.
        empty: those that are None unless they are given.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        foreign: bool,
        main: str,
        two: bool,
        parameters: Sequence[inspect.Parameter] = (),
    ) -> None:
        self.names = names
        self.foreign = foreign
        self._main = main
        self._two = two
        plain = [p for p in parameters if p.kind not in _MANY]
        by_name = [p.name for p in plain if p.kind is inspect.Parameter.KEYWORD_ONLY]
        listed = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        self.open = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        bare = self.open and not plain and not listed
        first = self.text == names[0] and names[0] not in by_name
        self.leading = not foreign and first and not bare
        self.needed = frozenset(p.name for p in plain if p.default is p.empty)
        self.empty = frozenset(p.name for p in plain if p.default is None)

    @property
    def text(self) -> str:
        """The name under which the text goes in."""
        if self.foreign:
            return "decoder_input_ids" if self._two else "input_ids"
        targets = [n for n in self.names[1:2] + self.names if self._two and n in _TARGET]
        return next(iter(targets), self.names[0])

    @property
    def source(self) -> str | None:
        """The name under which the source goes in, None without one."""
        if self.foreign:
            return self._main if self._two else None
        known = [n for n in self.names if n in (*_SOURCE, *_MEMORY) and n != self.text]
        return known[0] if known else None

    @property
    def takes(self) -> frozenset[str]:
        """What it can be given: padding, documents, positions, source, source_padding, weights."""
        if self.foreign:
            found = {"padding", "weights"} | ({"source", "source_padding"} if self._two else set())
            return frozenset(found | ({"positions"} if self._first(POSITIONS) else set()))
        held = {
            "padding": HIDING if self.source is None else (*HIDING, *TARGET_PADDING),
            "documents": DOCUMENTS,
            "positions": POSITIONS,
            "weights": _WEIGHTS,
        }
        found = {what for what, names in held.items() if self._first(names)}
        if self.source is not None:
            hiding = (*PADDING, *_MEMORY_PADDING, *_MEMORY_REAL, *REAL)
            found |= {"source"} | ({"source_padding"} if self._first(hiding) else set())
            if not self._first((*TARGET_PADDING, "decoder_attention_mask")):
                found -= {"padding"}
        return frozenset(found)

    @property
    def sides(self) -> tuple[str, ...]:
        """On which sides it can be told of padding: lengths say the right side alone."""
        by_mask = self.foreign or self._first((*PADDING, *REAL, *TARGET_PADDING)) is not None
        return ("left", "right") if by_mask else ("right",)

    def arguments(self, given: Given) -> dict[str, Any]:
        """The input by name."""
        return self._foreign(given) if self.foreign else self._own(self._filled(given))

    def _foreign(self, given: Given) -> dict[str, Any]:
        vectors = given.text.is_floating_point()
        prefix = "decoder_" if self._two else ""
        named: dict[str, Any] = {f"{prefix}inputs_embeds" if vectors else self.text: given.text}
        if given.real is not None:
            named[f"{prefix}attention_mask"] = given.real.long()
        placed = given.real is not None or given.documents is not None
        if placed and not self._two and "position_ids" in self.names:
            named["position_ids"] = positions_of(given)
        if self._two:
            named[self._main] = given.source
            if given.source_real is not None:
                named["attention_mask"] = given.source_real.long()
        return named

    def _filled(self, given: Given) -> Given:
        """With padding and documents where it cannot do without: none, and one."""
        shape, device = given.text.shape[:2], given.text.device
        hiding = HIDING if self.source is None else (*TARGET_PADDING, "decoder_attention_mask")
        if given.real is None and self.needed.intersection((*hiding, *POSITIONS)):
            real = torch.ones(shape, dtype=torch.bool, device=device)
            given = replace(given, real=real)
        if given.documents is None and self.needed.intersection(DOCUMENTS):
            documents = torch.zeros(shape, dtype=torch.long, device=device)
            given = replace(given, documents=documents)
        return given

    def _own(self, given: Given) -> dict[str, Any]:
        named: dict[str, Any] = {self.text: given.text}
        if given.source is not None and self.source is not None:
            named[self.source] = given.source
        two = self.source is not None
        if given.real is not None:
            self._put(named, TARGET_PADDING if two else PADDING, ~given.real)
            self._put(named, ("decoder_attention_mask",) if two else REAL, given.real.long())
            if not two:
                self._put(named, _LENGTHS, given.real.sum(-1))
        if given.source_real is not None:
            for name in (*PADDING[1:], *_MEMORY_PADDING):
                self._put(named, (name,), ~given.source_real)
            self._put(named, _MEMORY_REAL, given.source_real.long())
        if given.documents is not None:
            self._put(named, DOCUMENTS, given.documents)
        if given.documents is not None or given.real is not None:
            self._put(named, POSITIONS, positions_of(given))
        return named

    def weights(self, asked: bool) -> dict[str, Any]:
        """The argument that asks for the weights, or leaves them."""
        if self.foreign:
            return {"output_attentions": True} if asked else {}
        name = self._first(_WEIGHTS)
        return {} if name is None else {name: asked}

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in self.names), None)

    def _put(self, named: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
        name = self._first(names)
        if name is not None and name not in named:
            named[name] = value


def signature_of(called: Callable[..., Any], example: Mapping[str, Any]) -> Signature:
    """How this module or function is called.

    Args:
        called: a module (its forward is read) or a function.
        example: named inputs that the user gave, which say what an encoder reads.

    Raises:
        ModelError: it takes no argument.
    """
    config = getattr(called, "config", None)
    foreign = isinstance(called, nn.Module) and hasattr(config, "_attn_implementation")
    parameters = _parameters(called)
    left = _left_out(called, parameters)
    names = tuple(p.name for p in parameters if p.kind not in _MANY and p.name not in left)
    if not names and any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        names = tuple(p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL)
    elif not names and parameters:  # **kwargs alone: the caller's names are those it takes
        names = tuple(sorted(example, key=lambda name: name in FILLED or not name.endswith(_TEXTS)))
        if not names:
            raise ModelError(
                f"{_name(called)} takes its input by any name; pass inputs= as tensors by name"
            )
    if not names:
        raise ModelError(
            f"{_name(called)} takes no input; pass a module or a function of ids [batch, position] or vectors"
        )
    if foreign:
        two = bool(getattr(config, "is_encoder_decoder", False))
    else:
        two = any(n in _TARGET for n in names) and any(n in (*_SOURCE, *_MEMORY) for n in names)
    main = getattr(called, "main_input_name", "input_ids")
    return Signature(names, foreign, main, two, parameters)


def _parameters(called: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of a forward or function; one where it does not say."""
    forward = called.forward if isinstance(called, nn.Module) else called
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    schema = getattr(forward, "schema", None)  # torch.jit's own list
    if schema is not None:
        own = schema.arguments[1:] if isinstance(called, nn.Module) else schema.arguments
        empty = inspect.Parameter.empty
        return [
            inspect.Parameter(
                x.name, kind, default=x.default_value if x.has_default_value() else empty
            )
            for x in own
        ]
    try:
        return list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return [inspect.Parameter("input", kind)]


def _left_out(called: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> list[str]:
    """A memory that a decoder can do without; one of ours says by `cross` whether it can."""
    if getattr(called, "cross", False):
        return []
    return [p.name for p in parameters if p.name in _MEMORY and p.default is not p.empty]


def _name(called: Callable[..., Any]) -> str:
    return getattr(called, "__name__", "") or type(called).__name__
