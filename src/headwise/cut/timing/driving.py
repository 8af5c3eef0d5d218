"""How a model is run to be timed: a whole pass, a pass that fills its cache, one more token.

What it reads is made up, as what it says does not matter to the time.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.check.running.caching import handed, is_cache
from headwise.cut.example import example
from headwise.hub.load import Model
from headwise.names import TextError
from headwise.nn import Decoder, EncoderDecoder
from headwise.nn.cache import KVCache

__all__ = ["Drive", "Held", "cache_bytes", "drive_of"]


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


@dataclass(frozen=True, eq=False)
class Drive:
    """A model with something to read.

    Attributes:
        length: tokens of each row; None where it reads no text.
        forward: the whole pass, without a cache.
        fill: the pass that fills a cache, and what it holds then; None where the model has no cache.
    """

    length: int | None
    forward: Callable[[], object]
    fill: Callable[[], Held] | None


def drive_of(model: Model, batch: int, length: int, room: int) -> Drive:
    """Make up rows for a model, and find how it reads them.

    Args:
        model: from `load`.
        batch: rows.
        length: tokens of each row, where the model reads text.
        room: how many tokens will be decoded after them.

    Raises:
        TextError: a model that reads fewer tokens.
        ModelError: nothing can be made up for this model.
    """
    inputs = dict(example(model))
    text = "input_ids" in inputs
    if text:
        most = model.max_length
        if most is not None and length + room > most:
            raise TextError(
                f"{model.name} reads {most} tokens at most, and the longest of this timing is {length} + {room}; "
                "give lengths= that fit"
            )
        inputs["input_ids"] = _tiled(inputs["input_ids"], batch, length)
    else:
        inputs = {k: _rows(v, batch) for k, v in inputs.items()}
    inputs.pop("attention_mask", None)
    inputs.pop("decoder_attention_mask", None)
    inputs.pop("token_type_ids", None)
    if "decoder_input_ids" in inputs:
        inputs["decoder_input_ids"] = _tiled(inputs["decoder_input_ids"], batch, 1)
    inputs = {k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in inputs.items()}
    fill = _fill(model, inputs, length, room)
    return Drive(length if text else None, lambda: model.outputs(inputs), fill)


def _fill(
    model: Model, inputs: Mapping[str, Any], length: int, room: int
) -> Callable[[], Held] | None:
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
    memory = module.encoder(inputs["input_ids"])
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


def _tiled(ids: Tensor, batch: int, length: int) -> Tensor:
    """Rows of this length made of some ids, over and over."""
    flat = ids.flatten()
    return flat.repeat(-(-batch * length // len(flat)))[: batch * length].view(batch, length)


def _rows(x: Any, batch: int) -> Any:
    """The first row of an input, so many times."""
    return x[:1].expand(batch, *x.shape[1:]) if isinstance(x, Tensor) and x.dim() else x


def cache_bytes(cache: Any) -> int:
    """Bytes of the keys and values that a cache holds, of ours and of transformers."""
    if isinstance(cache, KVCache):
        held = [layer.held() for layer in (*cache.layers, *cache.cross_layers)]
        tensors = [x for pair in held if pair is not None for x in pair]
    else:
        tensors = list({id(x): x for x in _tensors(cache, set())}.values())
    return sum(x.numel() * x.element_size() for x in tensors)


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
