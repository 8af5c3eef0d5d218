"""Fill a model's cache, and take a token more: the same for every model, whatever it calls its cache."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.check.running.caching import handed, is_cache
from headwise.hub.load import Model
from headwise.nn import Decoder, EncoderDecoder
from headwise.nn.cache import KVCache

__all__ = ["Held", "cache_bytes", "cache_tensors", "fill_of"]


@dataclass(eq=False)
class Held:
    """What a model holds between two tokens: its cache, and how it takes the next token."""

    cache: Any
    step: Callable[[Any], object]

    def steps(self, count: int) -> Callable[[], None]:
        """Decodes so many tokens, from a copy of the cache that is made now."""
        cache = copy.deepcopy(self.cache)

        def run() -> None:
            for _ in range(count):
                self.step(cache)

        return run


def fill_of(
    model: Model, inputs: Mapping[str, Any], length: int, room: int
) -> Callable[[], Held] | None:
    """The pass that fills a cache; None where the model has none.

    Args:
        model: from `load`.
        inputs: what it reads, on its device.
        length: positions of that.
        room: how many more will be read.
    """
    module = model.module
    if isinstance(module, Decoder):
        return lambda: _fill_decoder(module, inputs["input_ids"], length + room)
    if isinstance(module, EncoderDecoder):
        return lambda: _fill_both(module, inputs, 1 + room)
    if not model.foreign:
        return None
    takes = inspect.signature(module.forward).parameters
    names = tuple(name for name in takes if is_cache(name))
    if not names or "use_cache" not in takes:
        return None
    frugal = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
    asked = {**inputs, **frugal, "use_cache": True}
    with torch.no_grad():
        cached = bool(handed(module(**asked), names))
    return (lambda: _fill_foreign(model, asked, names)) if cached else None


def _fill_decoder(module: Decoder, ids: Tensor, room: int) -> Held:
    """Ours: the logits of the last position alone are made, as generating needs."""
    cache, last = module.new_cache(room), ids[:, -1:]
    module.logits(module.hidden(ids, cache=cache)[:, -1:])
    return Held(cache, lambda cache: module(last, cache=cache))


def _fill_both(module: EncoderDecoder, inputs: Mapping[str, Any], room: int) -> Held:
    memory = module.encoder(inputs.get("input_ids", inputs.get("input_features")))
    cache, first = module.decoder.new_cache(room), inputs["decoder_input_ids"]
    module.decoder(first, cache=cache, memory=memory)
    return Held(cache, lambda cache: module.decoder(first, cache=cache, memory=memory))


def _fill_foreign(model: Model, asked: Mapping[str, Any], names: tuple[str, ...]) -> Held:
    """Of transformers: what comes out under the name of a cache goes back in under it."""
    made = model.module(**asked)
    if model.encoder_decoder:
        token = {"decoder_input_ids": asked["decoder_input_ids"]}
        token["encoder_outputs"] = (made.encoder_last_hidden_state,)
    else:
        token = {"input_ids": asked["input_ids"][:, -1:]}

    def step(cache: Any) -> object:
        return model.module(**token, **cache, use_cache=True)

    return Held(handed(made, names), step)


def cache_bytes(cache: Any) -> int:
    """Bytes of the keys and values that a cache holds, of ours and of transformers."""
    return sum(x.numel() * x.element_size() for x in cache_tensors(cache))


def cache_tensors(cache: Any) -> list[Tensor]:
    """The keys and values (and other states) that a cache holds, each once."""
    if isinstance(cache, KVCache):
        held = [layer.held() for layer in (*cache.layers, *cache.cross_layers)]
        return [x for pair in held if pair is not None for x in pair]
    return list({id(x): x for x in _tensors(cache, set())}.values())


def _tensors(thing: Any, seen: set[int]) -> Iterator[Tensor]:
    """Every tensor within an object, its lists, tuples and mappings."""
    if isinstance(thing, Tensor):
        yield thing
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, list | tuple):
        parts = list(thing)
    elif isinstance(thing, dict):
        parts = list(thing.values())
    else:
        parts = list(getattr(thing, "__dict__", {}).values())
    for part in parts:
        yield from _tensors(part, seen)
