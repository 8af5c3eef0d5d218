"""A corpus as batches: texts of any number and length, read as they are needed.

Texts are read some hundred at a time and put in order of their length there, so that a batch holds little padding.
How they are batched depends on the texts alone, so a run that is taken up again can skip the batches it has done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from headwise.hub.load import Model
from headwise.names import ConfigError, TextError
from headwise.see.record import Side
from headwise.see.texts.batches import (
    MOST_TOKENS,
    Batch,
    Cut,
    padded,
)
from headwise.see.texts.refusing import check_reads_text
from headwise.see.texts.tokens import tokenize

__all__ = ["SPLITTING", "packed"]

_WINDOW = 256
"""How many pieces of texts are put in order of their length at a time."""

SPLITTING = (
    "a text longer than the context is cut into the fewest consecutive pieces of equal numbers of tokens (to one), "
    "each with the special tokens the tokenizer puts at the start and end of a text"
)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A text, or a part of one; `skipped` counts the empty texts before it, `number` all up to its own."""

    source: Side
    target: Side | None
    first: bool
    skipped: int
    number: int
    cut: Cut | None = None

    @property
    def length(self) -> int:
        """In tokens, of the longer side."""
        sides = (self.source, *([] if self.target is None else [self.target]))
        return max(len(side.tokens) for side in sides)


def packed(
    model: Model,
    texts: Iterable[str],
    *,
    targets: Iterable[str] | None = None,
    context: int | None = None,
    breaks: Collection[int] = (),
    call: str = "profile",
) -> Iterator[Batch]:
    """The texts as batches of about 4096 tokens, padding included, in an order that depends on nothing else.

    Args:
        model: whose tokenizer reads them.
        texts: read as they are needed. Empty ones are left out and counted (`Batch.skipped`).
        targets: what the decoder of an encoder-decoder reads for each.
        context: the most tokens of a piece; None = what the model reads at most, the whole text where it has no
            limit. A longer text is cut (`SPLITTING`); each piece is a row of its own.
        breaks: numbers of texts after which a batch begins anew, where the texts once ended: those before it are
            batched as they were then.
        call: the function or command that reads them, which the errors name.

    Raises:
        TextError: no text at all, one that is no text or has no tokens, or one with a target that is too long.
        ConfigError: a context the model does not read, or of no more than the special tokens.
        ModelError: a model that reads no text.
    """
    check_reads_text(model, call)
    most = _context(model, context)
    pieces = _pieces(model, texts, targets, most)
    some = False
    for window in _windows(pieces, breaks):
        yield from _batches(model, window)
        some = True
    if not some:
        raise TextError("there is no text: every one is empty, or none came")


def _context(model: Model, context: int | None) -> int | None:
    if context is None:
        return model.max_length
    if context < 1 or (model.max_length is not None and context > model.max_length):
        most = (
            "" if model.max_length is None else f" to {model.max_length}, what {model.name} reads"
        )
        raise ConfigError(f"context must be from 1{most}, came {context}")
    return context


def _pieces(
    model: Model, texts: Iterable[str], targets: Iterable[str] | None, most: int | None
) -> Iterator[_Piece]:
    """Each text that is not empty, cut where it is too long; the last one counts the empty ones after it too."""
    skipped = 0
    held: _Piece | None = None
    for i, (text, target) in enumerate(_with_targets(texts, targets)):
        if isinstance(text, str) and not text.strip():
            skipped += 1
            continue
        parts = _cut(_side(model, text, i), most)
        goal = None if targets is None else _side(model, target, i)
        if goal is not None and (len(parts) > 1 or len(_cut(goal, most)) > 1):
            raise TextError(
                f"text {i + 1} or its target is longer than the {most} tokens of the context, and a text "
                "with a target is not cut; give shorter ones"
            )
        cut = Cut(_number(text, i), len(parts)) if len(parts) > 1 else None
        for part in parts:
            if held is not None:
                yield held
            held = _Piece(part, goal, part is parts[0], skipped, i + 1, cut)
            skipped = 0
    if held is not None:
        yield replace(held, skipped=held.skipped + skipped)


def _number(text: str, i: int) -> int:
    """A number of text i: the same in every process, and unlike those of other texts."""
    digest = hashlib.sha256(f"{i} {text}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], signed=True)


def _with_targets(texts: Iterable[str], targets: Iterable[str] | None) -> Iterator[tuple[str, Any]]:
    if targets is None:
        yield from ((text, None) for text in texts)
        return
    try:
        yield from zip(texts, targets, strict=True)
    except ValueError as error:
        if "zip()" not in str(error):
            raise
        raise TextError(f"give each text one target: {error}") from None


def _side(model: Model, text: object, i: int) -> Side:
    assert model.tokenizer is not None
    if not isinstance(text, str):
        raise TextError(f"text {i + 1} must be a string like the first, came {type(text).__name__}")
    try:
        return Side(text, tokenize(model.tokenizer, text))
    except TextError as error:
        raise TextError(f"text {i + 1}: {error}") from None


def _cut(side: Side, most: int | None) -> list[Side]:
    """The text in pieces of at most so many tokens (`SPLITTING`)."""
    tokens = side.tokens
    if most is None or len(tokens) <= most:
        return [side]
    start, stop = 0, len(tokens)
    while start < stop and tokens[start].special:
        start += 1
    while stop > start and tokens[stop - 1].special:
        stop -= 1
    room = most - (len(tokens) - (stop - start))
    if room < 1:
        raise ConfigError(
            f"a context of {most} tokens has no room beside the {len(tokens) - (stop - start)} special ones"
        )
    count = -(-(stop - start) // room)
    edges = np.linspace(start, stop, count + 1).round().astype(int).tolist()
    return [
        Side(side.text, (*tokens[:start], *tokens[a:b], *tokens[stop:])) for a, b in pairwise(edges)
    ]


def _windows(pieces: Iterator[_Piece], breaks: Collection[int]) -> Iterator[list[_Piece]]:
    window: list[_Piece] = []
    for piece in pieces:
        if window and any(window[-1].number <= one < piece.number for one in breaks):
            yield window
            window = []
        window.append(piece)
        if len(window) == _WINDOW:
            yield window
            window = []
    if window:
        yield window


def _batches(model: Model, window: list[_Piece]) -> Iterator[Batch]:
    """The pieces of a window by their length, as many at a time as fit."""
    group: list[_Piece] = []
    for piece in sorted(window, key=lambda piece: piece.length):
        if group and piece.length * (len(group) + 1) > MOST_TOKENS:
            yield _batch(model, group)
            group = []
        group.append(piece)
    yield _batch(model, group)


def _batch(model: Model, group: list[_Piece]) -> Batch:
    goals = [piece.target for piece in group if piece.target is not None]
    batch = padded(model, [piece.source for piece in group], goals or None)
    begun, skipped = sum(p.first for p in group), sum(p.skipped for p in group)
    return replace(batch, begun=begun, skipped=skipped, cuts=[p.cut for p in group])
