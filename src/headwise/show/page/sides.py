"""The texts of a scene: source and target apart, also where both are the same words; and their separators."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from headwise.see.record import LayerRecord, Record, Side
from headwise.see.texts.tokens import Token

__all__ = ["TITLES", "places_of", "separators", "side_number", "sides_of"]

TITLES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross-attention"}
"""What the streams of an encoder-decoder are called on a page."""

_Key = tuple[bool, tuple[Token, ...]]


def sides_of(record: Record) -> list[Side]:
    """The texts: those that look, then those that are looked at alone.

    What cross-attention and an encoder look at is the source; all else is the target, or the only text.
    """
    return [side for _, side in _found(record)]


def places_of(layer: LayerRecord, record: Record) -> tuple[int, int]:
    """Which of the texts a layer's queries and keys are."""
    keys = [key for key, _ in _found(record)]
    return keys.index(_queries(layer)), keys.index(_keys(layer))


def side_number(record: Record, stream: str) -> int:
    """Which of the texts a stream is of; of "cross" the one that looks."""
    layer = next(layer for id, layer in record.layers.items() if id.stream == stream)
    return places_of(layer, record)[0]


def separators(side: Side) -> list[int]:
    """The tokens that only part a text: special ones, punctuation and white space."""
    return [i for i, token in enumerate(side.tokens) if token.special or _parts(token)]


def _parts(token: Token) -> bool:
    """Whether a token is punctuation or white space; places of no text, emoji and pieces of letters are not."""
    if token.id < 0 or not token.text:
        return False
    return all(c.isspace() or unicodedata.category(c)[0] == "P" for c in token.text)


def _found(record: Record) -> list[tuple[_Key, Side]]:
    found: dict[_Key, Side] = {}
    for key, side in _every(record):
        found.setdefault(key, side)
    return list(found.items())


def _every(record: Record) -> Iterator[tuple[_Key, Side]]:
    for layer in record.layers.values():
        yield _queries(layer), layer.queries
    for layer in record.layers.values():
        yield _keys(layer), layer.keys


def _queries(layer: LayerRecord) -> _Key:
    return layer.id.stream == "encoder", layer.queries.tokens


def _keys(layer: LayerRecord) -> _Key:
    return layer.id.stream in ("encoder", "cross"), layer.keys.tokens
