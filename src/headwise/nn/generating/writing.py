"""generate: what a decoder writes after a prompt, on ids, with a cache made once for prompt and new tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.names import ModelError, ShapeError
from headwise.nn.cache import KVCache
from headwise.nn.generating.drawing import Drawing, check_whole, generators_for
from headwise.nn.generating.packing import packed
from headwise.nn.models import Decoder, EncoderDecoder
from headwise.nn.modes import evaluating, uncompiled

__all__ = ["Each", "check_ids", "generate", "room_for"]

Each = Callable[[Tensor], Tensor | None]
"""Called after each step with the new tokens [batch]; may give which rows [batch] are to end with them."""


def generate(
    model: Decoder | EncoderDecoder,
    ids: Int[Tensor, "batch position"],
    max_new_tokens: int = 32,
    *,
    key_padding_mask: Bool[Tensor, "batch position"] | None = None,
    source_ids: Int[Tensor, "batch source"] | Float[Tensor, "batch feature frame"] | None = None,
    memory: Float[Tensor, "batch key d_model"] | None = None,
    memory_padding_mask: Bool[Tensor, "batch key"] | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    ends: Sequence[int] = (),
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    each: Each | None = None,
    chunk: int | None = None,
) -> Int[Tensor, "batch written"]:
    """The ids with what the model writes after them, until every row has ended or has its new tokens.

    A row that has ended goes on with the first of `ends` (without ends, with its own last token) until all
    have. Learned positions end with config.max_length, and the text with them (`room_for`).

    Args:
        model: a Decoder, or an EncoderDecoder, whose decoder then writes after ids; of one that torch.compile
            made the model itself writes, as it is.
        ids: the prompts, at least one token each: of an EncoderDecoder what its decoder starts with.
        max_new_tokens: how many tokens at most.
        key_padding_mask: True = padding, on the left.
        source_ids: what an EncoderDecoder's encoder reads, ids or features; or give `memory`.
        memory: hidden states that cross-attention looks at.
        memory_padding_mask: True = padding in the source or the memory.
        temperature, top_k, top_p: how a token is drawn (`Drawing`); at temperature 0 it is the likeliest.
        ends: tokens that end a row.
        generator: what is drawn from; one generator seeds each row's own, or give one for each row.
        each: called after each step with the new tokens [batch]; may give which rows [batch] end with them.
        chunk: read the prompt in pieces of so many tokens, which takes less memory; None = at once.

    Raises:
        ShapeError: no prompt, ids outside the vocabulary, no room after the prompt, padding that is not on the
            left, a source where there is no encoder, or none where there is.
        ConfigError: numbers that cannot be.
        ModelError: another kind of model, or logits that are not numbers.
    """
    model = uncompiled(model)
    if not isinstance(model, Decoder | EncoderDecoder):
        raise ModelError(
            f"nn.generate writes with a Decoder or an EncoderDecoder, came a {type(model).__name__}; "
            "headwise.generate takes what headwise.load gives"
        )
    drawing = Drawing(temperature, top_k, top_p)
    check_whole("max_new_tokens", max_new_tokens)
    check_whole("chunk", chunk)
    check_ids(ids, model.config.vocab_size)
    _check_padding(ids, key_padding_mask)
    room = room_for(model, ids.shape[1], max_new_tokens)
    generators = generators_for(len(ids), generator) if drawing.draws else []
    with torch.no_grad(), evaluating(model), packed(model, len(ids), room):
        reader = _reader(model, source_ids, memory, memory_padding_mask, ids.shape[1] + room)
        logits = reader.read(ids, key_padding_mask, chunk)
        rows = _Rows(ids, room, ends)
        while True:
            new = rows.add(drawing.next(logits, generators))
            rows.end(None if each is None else each(new))
            if rows.done:
                return rows.ids
            logits = reader.read(new[:, None])


def room_for(model: Decoder | EncoderDecoder, length: int, max_new_tokens: int) -> int:
    """How many of the new tokens fit after prompts of this length: all, but where positions are learned.

    Raises:
        ShapeError: none does.
    """
    if model.config.positions != "learned":
        return max_new_tokens
    room = model.config.max_length - length
    if room < 1:
        raise ShapeError(
            f"the prompt is {length} tokens, the model has learned max_length={model.config.max_length} "
            "positions: nothing fits after it; shorten it"
        )
    return min(room, max_new_tokens)


class _Rows:
    """The rows while they are written, in one tensor made at once, and which have ended."""

    def __init__(self, ids: Tensor, room: int, ends: Sequence[int]) -> None:
        self._all = torch.cat([ids, ids.new_zeros(len(ids), room)], 1)
        self._length = ids.shape[1]
        self._ends = torch.tensor(list(ends), dtype=ids.dtype, device=ids.device)
        self._ended: Tensor | None = None
        """Which rows have; None while surely none has."""

    def add(self, new: Tensor) -> Tensor:
        """The new tokens, of ended rows in place of theirs what fills them."""
        new = new.to(self._all.dtype)
        if self._ended is not None:
            fill = self._ends[0] if len(self._ends) else self._all[:, self._length - 1]
            new = torch.where(self._ended, fill, new)
        self._all[:, self._length] = new
        self._length += 1
        return new

    def end(self, asked: Tensor | None) -> None:
        """Count the rows as ended that have just written an end, and those that are asked to end."""
        said = [] if asked is None else [asked.to(self._all.device)]
        if len(self._ends):
            said.append((self._all[:, self._length - 1, None] == self._ends).any(-1))
        for now in said:
            self._ended = now if self._ended is None else self._ended | now

    @property
    def done(self) -> bool:
        """Whether there is nothing more to write."""
        full = self._length == self._all.shape[1]
        return full or (self._ended is not None and bool(self._ended.all()))

    @property
    def ids(self) -> Tensor:
        """What is written so far, prompts and all."""
        return self._all[:, : self._length]


@dataclass(frozen=True)
class _Reader:
    """A decoder that reads on."""

    decoder: Decoder
    cache: KVCache
    memory: Tensor | None
    memory_padding_mask: Tensor | None

    def read(self, ids: Tensor, padding: Tensor | None = None, chunk: int | None = None) -> Tensor:
        """Logits [batch, vocab_size] of the last of these tokens, no others being made."""
        size = chunk or ids.shape[1]
        hidden_by = [None] if padding is None else padding.split(size, 1)
        for i, part in enumerate(ids.split(size, 1)):
            hidden = self.decoder.hidden(
                part,
                hidden_by[0 if padding is None else i],
                self.cache,
                memory=self.memory,
                memory_padding_mask=self.memory_padding_mask,
            )
        return self.decoder.logits(hidden[:, -1:])[:, 0]


def _reader(
    model: Decoder | EncoderDecoder,
    source_ids: Tensor | None,
    memory: Tensor | None,
    memory_padding_mask: Tensor | None,
    length: int,
) -> _Reader:
    if isinstance(model, Decoder):
        if source_ids is not None:
            raise ShapeError(
                "source_ids came, but a Decoder has no encoder to read them; pass memory="
            )
        return _Reader(model, model.new_cache(length), memory, memory_padding_mask)
    if (source_ids is None) == (memory is None):
        raise ShapeError(
            "an EncoderDecoder writes from one of source_ids= and memory=; give exactly one"
        )
    if source_ids is not None:
        memory = model.encode(source_ids, memory_padding_mask)
    return _Reader(model.decoder, model.decoder.new_cache(length), memory, memory_padding_mask)


def check_ids(ids: Tensor, vocab_size: int | None) -> None:
    """Refuse prompts that cannot be read; vocab_size=None asks nothing of the ids.

    Raises:
        ShapeError: not rows of ids, none, or ids outside the vocabulary.
    """
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise ShapeError(f"ids must be whole numbers, came {ids.dtype}; use ids.long()")
    if ids.dim() != 2:
        raise ShapeError(f"ids must be [batch, position], came {list(ids.shape)}; use ids[None]")
    if not ids.numel():
        raise ShapeError(
            f"the prompt is empty: ids are {list(ids.shape)}; give at least one token, such as the one "
            "that begins a text"
        )
    if vocab_size is None:
        return
    outside = ids[(ids < 0) | (ids >= vocab_size)]
    if len(outside):
        raise ShapeError(
            f"an id is {int(outside[0])}, the model's tokens are 0 to {vocab_size - 1}; make the ids with its "
            "own tokenizer"
        )


def _check_padding(ids: Tensor, key_padding_mask: Tensor | None) -> None:
    """Refuse rows with nothing to write after, at their end."""
    if key_padding_mask is None or key_padding_mask.shape != ids.shape:
        return
    last = key_padding_mask[:, -1]
    if bool(last.any()):
        raise ShapeError(
            f"row {int(last.int().argmax())} ends with padding, and new tokens come after the end; "
            "pad prompts on the left"
        )
