"""Read a text piece by piece, whatever a model calls its cache.

The name of the cache is found by what comes out: what the output holds under a name that forward takes is handed
back under it. So no release, class or module of yours has to be known; where nothing comes out, but forward takes
a cache of transformers, one is made. Padding and positions are cut from those of the whole text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.check.reading.arguments import Signature
from headwise.check.reading.beside import laid
from headwise.check.reading.given import Given
from headwise.names import ModelError
from headwise.nn import EncoderDecoder

__all__ = ["Reading", "Way", "is_cache", "way_of"]

_CACHE = re.compile(r"(^|_)(caches?|past|states?|mems|kv|hidden|hx|h0)(_|$)")
_NO_CACHE = re.compile(
    r"hidden_states?$|encoder|attention|cross|position|observed|values_padding|start_states"
)
_ASKING = ("use_cache", "use_mems", "return_state", "return_cache", "return_past", "return_states")
_WHOLE = ("attention_mask", "decoder_attention_mask")
"""Masks that a step is given for all that was read; other arguments are those of the piece."""


@dataclass(frozen=True)
class Way:
    """How a model takes back what it handed over.

    Attributes:
        names: the arguments that take it.
        made: by what it is made before the first call; None where the first call hands it over.
    """

    names: tuple[str, ...]
    made: str | None = None


class Reading:
    """A text read piece by piece through a cache.

    Args:
        called: the model, one that nothing else reads with (some keep their state inside).
        signature: how it is called.
        given: the whole text, with its padding.
        way: how its cache goes (`way_of`).
        others: further named inputs, the same for every piece.
    """

    def __init__(
        self,
        called: Callable[..., Any],
        signature: Signature,
        given: Given,
        way: Way,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        self._text = signature.text
        self._named = laid(others or {}, given, called) | signature.arguments(given)
        self._whole = given.length
        if isinstance(called, EncoderDecoder):
            called, self._text, self._named = _own_decoder(called, given)
        self._call = called
        self._takes = _takes(called)
        self._named |= _memory(called, signature, self._named)
        self._foreign = signature.foreign
        self._way = way
        self._held: dict[str, Any] = {}
        if way.made is not None:
            self._held = {way.names[0]: _made(called, way.made, given.length)}
        self.length = 0

    def read(self, count: int) -> Any:
        """What comes out for the next `count` positions, as forward gives it.

        Raises:
            ModelError: no cache came back.
        """
        out = self._call(**self._arguments(count))
        if self._way.made is None:
            self._held |= handed(out, self._way.names)
            if not any(name in self._held for name in self._way.names):
                raise ModelError(f"a step hands over no {' or '.join(self._way.names)}")
        self.length += count
        return out[0] if isinstance(out, tuple) and not isinstance(out, Mapping) else out

    def _arguments(self, count: int) -> dict[str, Any]:
        start, stop = self.length, self.length + count
        named = {name: self._cut(name, x, start, stop) for name, x in self._named.items()}
        named |= {name: True for name in _ASKING if name in self._takes}
        if "use_cache" not in self._takes and self._foreign and _open(self._call):
            named["use_cache"] = True
        if "cache_position" in self._takes:
            device = self._named[self._text].device if self._text in self._named else None
            named["cache_position"] = torch.arange(start, stop, device=device)
        if start and self._foreign and _leaves_mask(self._call, named | self._held):
            named = {name: x for name, x in named.items() if name not in _WHOLE}
        return named | self._held

    def _cut(self, name: str, x: Any, start: int, stop: int) -> Any:
        if not isinstance(x, Tensor) or x.dim() < 2 or not self._along(name):
            return x
        if x.shape[1] != self._whole:  # it goes along no text
            return x
        return x[:, :stop] if name in _WHOLE else x[:, start:stop]

    def _along(self, name: str) -> bool:
        """Whether an argument goes along the text, not along what an encoder reads."""
        if self._text.startswith("decoder_"):
            return name.startswith("decoder_")
        return not name.startswith(("memory", "source", "src", "encoder"))


def way_of(
    called: Callable[..., Any],
    signature: Signature,
    given: Given,
    others: Mapping[str, Any] | None = None,
) -> Way:
    """How a model's cache goes, found by calling it once: give a copy that nothing else reads with.

    Raises:
        ModelError: it takes or hands over no cache.
    """
    if isinstance(called, EncoderDecoder):
        return Way(("cache",), "new_cache")
    names = tuple(name for name in _takes(called) if is_cache(name))
    if "cache" in names and callable(getattr(called, "new_cache", None)):
        return Way(("cache",), "new_cache")
    if not names and not signature.foreign:
        raise ModelError("it takes no cache")
    reading = Reading(called, signature, given, Way(names), others)
    count = min(2, given.length)
    with torch.no_grad():
        out = called(**reading._arguments(count))
    found = handed(out, names)
    if found:
        return Way(tuple(found))
    if signature.foreign and names:
        return Way(names[:1], "DynamicCache")
    raise ModelError(
        f"it takes {names[0]} and hands over none" if names else "it takes and hands over no cache"
    )


def handed(out: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """What an output holds under the names of a cache; the last of a tuple is that of the first name."""
    if isinstance(out, Mapping):
        return {name: out[name] for name in names if out.get(name) is not None}
    if isinstance(out, tuple | list) and len(out) > 1:
        return {names[0]: out[-1]} if names and out[-1] is not None else {}
    return {name: x for name in names if (x := getattr(out, name, None)) is not None}


def is_cache(name: str) -> bool:
    """Whether an argument of this name takes a cache."""
    if name in _ASKING:
        return False
    return bool(_CACHE.search(name)) and not _NO_CACHE.search(name) and name != "cache_position"


def _takes(called: Callable[..., Any]) -> tuple[str, ...]:
    forward = getattr(called, "forward", called)
    try:
        return tuple(inspect.signature(forward).parameters)
    except (TypeError, ValueError):
        return ()


def _open(called: Callable[..., Any]) -> bool:
    parameters = inspect.signature(getattr(called, "forward", called)).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def _leaves_mask(called: Any, named: Mapping[str, Any]) -> bool:
    """Whether the model's own generation leaves the mask out of a step, as recurrences do: what is read is real."""
    prepare = getattr(called, "prepare_inputs_for_generation", None)
    if prepare is None or named.get("attention_mask") is None or named.get("input_ids") is None:
        return False
    try:
        prepared = prepare(**{**named, "use_cache": True, "is_first_iteration": False})
    except Exception:  # what it needs beside differs by model and release
        return False
    return "attention_mask" in prepared and prepared["attention_mask"] is None


def _made(called: Any, by: str, length: int) -> Any:
    if by == "new_cache":
        make = called.new_cache
        return make(length) if _sized(make) else make()
    import transformers

    return getattr(transformers, by)(config=called.config)


def _sized(make: Callable[..., Any]) -> bool:
    return bool(inspect.signature(make).parameters)


def _memory(
    called: Callable[..., Any], signature: Signature, named: Mapping[str, Any]
) -> dict[str, Any]:
    """What the encoder of a model of transformers gives, made once, as it comes out."""
    if not signature.foreign or signature.source is None or "encoder_outputs" not in _takes(called):
        return {}
    encoder = called.get_encoder()  # type: ignore[attr-defined]
    asked = {n: x for n, x in named.items() if n in (signature.source, "attention_mask")}
    return {"encoder_outputs": encoder(**asked)}


def _own_decoder(model: EncoderDecoder, given: Given) -> tuple[Any, str, dict[str, Any]]:
    """The decoder of our own encoder-decoder, its encoder's output made once."""
    hidden = None if given.source_real is None else ~given.source_real
    named: dict[str, Any] = {"ids": given.text, "memory": model.encoder(given.source, hidden)}
    if hidden is not None:
        named["memory_padding_mask"] = hidden
    if given.real is not None:
        named["key_padding_mask"] = ~given.real
    return model.decoder, "ids", named
