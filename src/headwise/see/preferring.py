"""Which of two words a word rather looks at, head by head: what "it" stands for, as far as attention says so."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.names import HeadId, TextError
from headwise.see.record import Record
from headwise.see.texts.words import Word, find_words
from headwise.see.wording import Place

__all__ = ["LEAST", "TIMES", "Preference", "preferences"]

LEAST = 0.1
"""A head prefers a word only where it gives it at least this much of the row."""

TIMES = 2.0
"""And at least so many times what it gives the other."""


@dataclass(frozen=True)
class Preference:
    """One head's weights, from a word to two others: to a word the sum over its tokens, from a word the mean.

    Attributes:
        head: which.
        one: attention to the first of the two.
        other: attention to the second.
    """

    head: HeadId
    one: float
    other: float

    @property
    def prefers_one(self) -> bool:
        """Whether it clearly looks rather at the first."""
        return self.one >= LEAST and self.one >= TIMES * self.other

    @property
    def prefers_other(self) -> bool:
        """Whether it clearly looks rather at the second."""
        return self.other >= LEAST and self.other >= TIMES * self.one


def preferences(record: Record, place: Place, one: str, other: str) -> list[Preference]:
    """What a word gives each of two words, in every head that reads its text, by how much more the first gets.

    Args:
        record: of one text.
        place: of the word that looks (`places_of`).
        one, other: the two words; where one stands several times, all of its places are added up.

    Raises:
        TextError: one of them is not in a text that the word looks at, or both share a token.
    """
    found: list[Preference] = []
    for layer in record.layers.values():
        if layer.queries.tokens != place.side.tokens:
            continue
        mine, theirs = (_tokens(layer.keys.text, layer.keys.words, x) for x in (one, other))
        if shared := mine & theirs:
            token = layer.keys.tokens[min(shared)].text
            raise TextError(
                f"{one!r} and {other!r} share the token {token!r}, so attention to one is attention to the other; "
                "take other words, or another model"
            )
        rows = layer.scores.rows(place.word.first, place.word.last)[0].double().mean(1)
        for head, row in zip(layer.naming.heads, rows.tolist(), strict=True):
            weights = (sum(row[at] for at in tokens) for tokens in (mine, theirs))
            found.append(Preference(layer.id.head(head), *weights))
    return sorted(found, key=lambda each: each.other - each.one)


def _tokens(text: str, words: tuple[Word, ...], wanted: str) -> set[int]:
    """The tokens of a word, at every place it stands."""
    return {
        at for word, _ in find_words(text, words, wanted) for at in range(word.first, word.last)
    }
