"""Words that an annotation names by their characters, as units of a model's tokens.

Attention to a unit is the sum over its tokens, from a unit their mean (Clark et al. 2019). A token that holds
several words makes one unit of them: a link between these cannot be seen. Special tokens belong to no unit, nor
does the first token of a text or of a piece of one, which takes attention as a sink whatever it says: a first word
of several tokens is the rest of them, one of that token alone no unit. Of a word cut between two pieces of a text
each piece has the tokens it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwise.see.texts.tokens import Token

__all__ = ["Span", "UnitMap", "split_at", "units_of"]

Span = tuple[int, int]
"""Characters of a text: the first, and the one after the last."""


@dataclass(frozen=True)
class UnitMap:
    """The units of a text's tokens.

    Attributes:
        ranges: of each unit its tokens: the first, and the one after the last; in order.
        unit: for each word the unit that holds it, -1 where no token does.
    """

    ranges: tuple[tuple[int, int], ...]
    unit: tuple[int, ...]


def units_of(words: Sequence[Span], tokens: Sequence[Token]) -> UnitMap:
    """The units that these words are of these tokens.

    Args:
        words: their characters in the text, in order of their starts; words that share characters are one unit.
        tokens: of the text or a piece of it, in order.
    """
    joined = list(_joined(words, tokens))
    unit = [-1] * len(words)
    for number, (_, of) in enumerate(joined):
        for word in of:
            unit[word] = number
    return UnitMap(tuple(tokens for tokens, _ in joined), tuple(unit))


def _joined(
    words: Sequence[Span], tokens: Sequence[Token]
) -> Iterator[tuple[tuple[int, int], set[int]]]:
    """For each unit its tokens and the words in it: neighbours are one where they hold parts of one word."""
    first, last, of, done = 0, 0, set[int](), set[int]()
    for at, held in _held(words, tokens):
        if held & of and last == at:
            of |= held - done
        else:  # of a word that went on after something else the first part is kept
            if of:
                yield (first, last), of
            done |= of
            first, of = at, held - done
        last = at + 1
    if of:
        yield (first, last), of


def _held(words: Sequence[Span], tokens: Sequence[Token]) -> Iterator[tuple[int, set[int]]]:
    """Each token that can be of a unit and holds something of a word, with the words it holds."""
    start = 0
    for at, token in enumerate(tokens):
        if at == 0 or token.special:
            continue
        while start < len(words) and words[start][1] <= token.start:
            start += 1
        held = set[int]()
        for word in range(start, len(words)):
            if words[word][0] >= token.end:
                break
            if words[word][1] > token.start:
                held.add(word)
        if held:
            yield at, held


def split_at(words: Iterable[Span], borders: Iterable[int]) -> tuple[Span, ...]:
    """The words, cut where a border falls within one, so that what an annotation names is made of whole words."""
    cuts = sorted(set(borders))
    found: list[Span] = []
    for start, end in words:
        inner = [cut for cut in cuts if start < cut < end]
        found.extend(zip([start, *inner], [*inner, end], strict=True))
    return tuple(found)
