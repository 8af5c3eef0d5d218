"""What one word looks at, head by head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from headwise.names import HeadId, TextError
from headwise.see.record import LayerRecord, Record, Side
from headwise.see.texts.words import Word, find_words, numbered, to_words


@dataclass(frozen=True)
class WordLook:
    """What one head's query at a word looks at.

    `looks_at` holds (word, weight), strongest first, without the first token, whose weight is `first`
    (None in cross-attention, where the first token is no sink of the same text). A word that stands in the
    text more than once carries its number, as in `the#2`.
    """

    head: HeadId
    looks_at: tuple[tuple[str, float], ...]
    first: float | None
    strength: float
    """The strongest weight on a word other than the first token and the word itself."""


@dataclass(frozen=True)
class Place:
    """Where a word that was asked for stands; `note` says so where its tokens hold more than it."""

    word: Word
    side: Side
    note: str | None


def places_of(record: Record, wanted: str) -> list[Place]:
    """Where `wanted` stands in the text, and in an encoder-decoder in the target too.

    Raises:
        TextError: nowhere.
    """
    return places_in(record.sides, wanted)


def places_in(sides: Iterable[Side], wanted: str) -> list[Place]:
    """Where `wanted` stands in some of the texts.

    Raises:
        TextError: in none of them.
    """
    found: list[Place] = []
    missing: TextError | None = None
    for side in sides:
        try:
            words = find_words(side.text, side.words, wanted)
        except TextError as error:
            missing = missing or error
        else:
            found.extend(Place(word, side, note) for word, note in words)
    if missing is not None and not found:
        raise missing
    return found


def looks_of(record: Record, place: Place, *, renormalise: bool = False) -> list[WordLook]:
    """What a word looks at in every head that reads its text, the head with the strongest look first.

    Args:
        record: of one text.
        place: one of its words (`places_of`).
        renormalise: give shares of what is left beside the first token, instead of the weights.
    """
    found: list[WordLook] = []
    for layer in record.layers.values():
        if layer.queries.tokens == place.side.tokens:
            found.extend(_layer_looks(layer, place.word, renormalise))
    return sorted(found, key=lambda look: -look.strength)


def _layer_looks(layer: LayerRecord, word: Word, renormalise: bool) -> list[WordLook]:
    keys = layer.keys.words
    names = numbered([key.text for key in keys])
    own_text = layer.own_text
    with torch.no_grad():
        rows = layer.scores.rows(word.first, word.last)[0].double().cpu().numpy()
    query = Word(word.text, word.start, word.end, 0, word.last - word.first)
    looks = []
    for head, row in zip(layer.naming.heads, rows, strict=True):
        weights = to_words(row, [query], keys)[0]
        first = float(weights[0]) if own_text and word.first > 0 else None
        if renormalise and first is not None and first < 1:
            weights = weights / (1 - first)
        pairs = [
            (name, key, float(weight))
            for name, key, weight in zip(names, keys, weights, strict=True)
            if weight > 0 and not (first is not None and key.first == 0)
        ]
        pairs.sort(key=lambda pair: -pair[2])
        others = [w for _, key, w in pairs if not own_text or key.first != word.first]
        looks.append(
            WordLook(
                layer.id.head(head),
                tuple((name, weight) for name, _, weight in pairs),
                first,
                max(others, default=0.0),
            )
        )
    return looks
