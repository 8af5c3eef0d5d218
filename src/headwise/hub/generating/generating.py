"""generate: what a model writes after a text, several at once, drawn or not, told while it is written.

Not covered: beams, penalties on what was said before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from headwise.hub.generating.ending import ends_of
from headwise.hub.generating.running import Asked, check_writes, written_after
from headwise.hub.generating.telling import Telling
from headwise.hub.load import Model
from headwise.hub.report import say
from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import EncoderDecoder
from headwise.nn.generating.drawing import Drawing, check_whole
from headwise.nn.generating.writing import check_ids
from headwise.nn.modes import uncompiled

__all__ = ["Written", "generate", "write"]

Stream = Callable[..., object]
"""Called while a text is written: stream(piece) of one text, stream(piece, row) of several."""


@dataclass(frozen=True)
class Written:
    """What a model wrote after one text.

    Attributes:
        text: without the prompt, up to the stop string or the token that ended it.
        tokens: how many tokens it wrote, those that ended it included.
        ended: "end" by a token that ends a text, "stop" by a stop string, "length" with the number asked for,
            "context" with what the model reads, "" where it was broken off.
    """

    text: str = ""
    tokens: int = 0
    ended: str = ""


def generate(
    model: Model,
    text: str | Sequence[str] | Int[Tensor, "batch position"],
    max_new_tokens: int = 32,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    stream: Stream | None = None,
) -> str | list[str] | Int[Tensor, "batch written"]:
    """What a model writes after a text, until it ends the text or has written enough.

    Works on models that were cut as on others, and within `ablate`. What a text is followed by does not depend on
    the others that are given beside it.

    Args:
        model: from `load`: of our own blocks, or of transformers.
        text: a text; several, which are written on at once; or rows of ids of equal length. An encoder-decoder
            reads it, and writes another.
        max_new_tokens: how many tokens at most; fewer where the model's context is full before, which is said
            on stderr.
        temperature: what the logits are divided by before a token is drawn; 0 = the likeliest each time.
        top_k: draw among the k likeliest; None = among all.
        top_p: of these, draw among the likeliest that make up this probability; None = among all.
        stop: strings that end a text, which then ends before them; or the name of a special token.
        seed: of what is drawn. Where the same text is given again, the second draws with seed + 1, and so on.
        stream: called with each piece of text as soon as it is settled: stream(piece) of one text,
            stream(piece, row) of several; of rows of ids stream(ids) with the new ids [batch] of each step.

    Returns:
        Of a text what comes after it, of several a list of that; of ids the rows with the new ids after them
        (of an encoder-decoder, what its decoder started from and wrote).

    Raises:
        ModelError: the model writes no text, has no tokenizer to read one with, or gives no numbers.
        TextError: an empty text, or no room for one more token.
        ShapeError: ids that are not rows of the model's tokens.
        ConfigError: a number or a stop string that cannot be.
    """
    if isinstance(text, Tensor):
        return _after_ids(
            model,
            text,
            max_new_tokens,
            Drawing(temperature, top_k, top_p),
            _stops(stop),
            seed,
            stream,
        )
    texts = [text] if isinstance(text, str) else list(text)
    told = stream
    if stream is not None and isinstance(text, str):
        one = stream
        told = lambda piece, row: one(piece)  # noqa: E731
    drawing = Drawing(temperature, top_k, top_p)
    made = [w.text for w in write(model, texts, max_new_tokens, drawing, _stops(stop), seed, told)]
    return made[0] if isinstance(text, str) else made


def write(
    model: Model,
    texts: Sequence[str],
    max_new_tokens: int,
    drawing: Drawing,
    stops: Sequence[str] = (),
    seed: int = 0,
    stream: Stream | None = None,
) -> list[Written]:
    """What a model writes after each of several texts, and how each ended; as `generate` has it.

    Args:
        model, texts, max_new_tokens, stops, seed: as there.
        drawing: how tokens are chosen.
        stream: stream(piece, row).

    Raises:
        As `generate`.
    """
    _check(model, max_new_tokens)
    rows = [_ids(model, text) for text in texts]
    if not rows:
        raise TextError("no text came; give at least one")
    ends, strings = ends_of(model, stops)
    if isinstance(uncompiled(model.module), EncoderDecoder):  # a source ends as in training
        rows = [row if row[-1] in ends else [*row, *ends[:1]] for row in rows]
    ids, padding = _side_by_side(rows, left=not model.encoder_decoder)
    ids, padding = ids.to(model.device), None if padding is None else padding.to(model.device)
    room = _room(model, ids.shape[1], max_new_tokens)
    before = [[] if model.encoder_decoder else row for row in rows]
    tellings = [Telling(model.tokenizer, given, strings) for given in before]
    listening = _Listening(tellings, ends, stream)
    generators = [_generator(seed + texts[:i].count(text)) for i, text in enumerate(texts)]
    asked = Asked(room, drawing, generators, ends, listening.each)
    written_after(model, ids, padding, asked)
    return listening.finish(room < max_new_tokens)


def _after_ids(
    model: Model,
    ids: Tensor,
    max_new_tokens: int,
    drawing: Drawing,
    stops: Sequence[str],
    seed: int,
    stream: Stream | None,
) -> Tensor:
    _check(model, max_new_tokens)
    check_ids(ids, _vocabulary(model))
    if stops and model.tokenizer is None:
        raise ModelError(f"{model.name} has no tokenizer to find stop strings with; leave stop out")
    room = _room(model, ids.shape[1], max_new_tokens)
    rows = ids.tolist()
    ends, strings = ends_of(model, stops)
    before = [[] if model.encoder_decoder else row for row in rows]
    tellings = [Telling(model.tokenizer, given, strings) for given in before] if strings else []
    listening = _Listening(tellings, ends, None)

    def each(new: Tensor) -> Tensor | None:
        if stream is not None:
            stream(new)
        return listening.each(new) if tellings else None

    generators = [_generator(seed + rows[:i].count(row)) for i, row in enumerate(rows)]
    asked = Asked(room, drawing, generators, ends, each)
    return written_after(model, ids.to(model.device), None, asked)


class _Listening:
    """Hears each step's tokens, tells them as text, and knows which rows have ended and by what."""

    def __init__(
        self, tellings: Sequence[Telling], ends: Sequence[int], stream: Stream | None
    ) -> None:
        self.tellings, self.ends, self.stream = tellings, frozenset(ends), stream
        self.written = [Written() for _ in tellings]

    def each(self, new: Tensor) -> Tensor:
        """Take a step's tokens [batch]; which rows have ended."""
        for row, id in enumerate(new.tolist()):
            if not self.written[row].ended:
                self._take(row, id)
        return torch.tensor([bool(w.ended) for w in self.written])

    def _take(self, row: int, id: int) -> None:
        telling, so_far = self.tellings[row], self.written[row]
        piece, ended = "", ""
        if id in self.ends:
            piece, ended = telling.finish(), "end"
        else:
            piece = telling.take(id)
            ended = "stop" if telling.stopped else ""
        self.written[row] = Written(so_far.text + piece, so_far.tokens + 1, ended)
        self._tell(piece, row)

    def finish(self, full: bool) -> list[Written]:
        """What every row says, with what was held back of those that were cut off by their length."""
        for row, one in enumerate(self.written):
            if not one.ended:
                telling = self.tellings[row]
                piece = telling.finish()
                ended = "context" if full else "length"
                self.written[row] = replace(one, text=one.text + piece, ended=ended)
                self._tell(piece, row)
        return self.written

    def _tell(self, piece: str, row: int) -> None:
        if piece and self.stream is not None:
            self.stream(piece, row)


def _check(model: Model, max_new_tokens: int) -> None:
    check_whole("max_new_tokens", max_new_tokens)
    check_writes(model)


def _vocabulary(model: Model) -> int | None:
    """How many ids the model has, None where it does not say."""
    module: Any = uncompiled(model.module)
    if not model.foreign:
        return int(module.config.vocab_size)
    table = module.get_input_embeddings()
    return table.num_embeddings if isinstance(table, nn.Embedding) else None


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if "" in stops:
        raise ConfigError("a stop string is empty; give at least one character")
    return stops


def _ids(model: Model, text: str) -> list[int]:
    if model.tokenizer is None:
        raise ModelError(f"{model.name} has no tokenizer; give rows of ids")
    if not text.strip():
        raise TextError("the text is empty; give at least one word")
    return list(model.tokenizer.encode(text).ids)


def _side_by_side(rows: Sequence[Sequence[int]], left: bool) -> tuple[Tensor, Tensor | None]:
    """Rows of unequal length in one tensor, and where they are padded; None where none is."""
    pad = partial(pad_sequence, batch_first=True, padding_side="left" if left else "right")
    ids = pad([torch.tensor(row) for row in rows])
    padding = pad([torch.zeros(len(row), dtype=torch.bool) for row in rows], padding_value=True)
    return ids, padding if bool(padding.any()) else None


def _room(model: Model, length: int, most: int) -> int:
    """How many tokens fit."""
    limit = model.max_length
    if model.encoder_decoder:
        if limit is not None and length > limit:
            raise TextError(
                f"the text is {length} tokens, and {model.name} reads {limit}; shorten it"
            )
        length, limit = 1, model.max_target_length
    if limit is None:
        return most
    if length >= limit:
        raise TextError(
            f"the text is {length} tokens, and {model.name} reads {limit}: nothing fits after it"
        )
    if limit - length < most:
        say(
            f"{model.name} reads {limit} tokens: {limit - length} of {most} fit after the text",
            quiet=False,
        )
    return min(most, limit - length)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
