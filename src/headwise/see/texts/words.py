"""Words of a text against the tokens of a model.

Attention to a word is the sum over its tokens, attention from a word their mean (Clark et al. 2019). A word is a
run of letters, digits and marks; a Chinese or Japanese character is a word by itself, since nothing in the text
says where words end. Where a token holds more than one word they cannot be told apart, and count as one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from headwise.names import TextError
from headwise.see.texts.tokens import Token

RULE = "to a word: the sum over its tokens; from a word: their mean"

_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARK = "\u0301"
"""Stands for every combining mark and joiner while words are looked for."""
_LETTERS = rf"(?:(?![{_HAN}])\w{_MARK}*)+"
_WORD = re.compile(rf"[{_HAN}]{_MARK}*|{_LETTERS}(?:['’]{_LETTERS})*|[^\w\s]{_MARK}*")

T = TypeVar("T")


@dataclass(frozen=True)
class Word:
    """One word: its characters, and the tokens that hold them (first to last, exclusive)."""

    text: str
    start: int
    end: int
    first: int
    last: int
    special: bool = False


def words_of(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    """The words of a text in terms of its tokens; every token belongs to exactly one word."""
    borders = _borders(text)
    words: list[Word] = []
    for index, token in enumerate(tokens):
        if token.special:
            words.append(Word(token.text, token.start, token.end, index, index + 1, True))
        elif words and not words[-1].special and _same_word(words[-1], token, borders):
            word = words[-1]
            end = max(word.end, token.end)
            words[-1] = Word(text[word.start : end], word.start, end, word.first, index + 1)
        else:
            words.append(Word(token.text, token.start, token.end, index, index + 1))
    return tuple(_trimmed(word) for word in words)


def spans_of(text: str) -> tuple[tuple[int, int], ...]:
    """The words of a text whatever its tokens: of each the first character, and the one after the last."""
    return tuple(match.span() for match in _WORD.finditer(_marked(text)))


def find_words(
    text: str, words: Sequence[Word], wanted: str
) -> tuple[tuple[Word, str | None], ...]:
    """The words that are or hold `wanted`, each with a note where it holds more than that.

    Whole words come first: `it` finds the word `it` and not `animal with it`'s letters; only where there is
    no such word are words that contain it taken.

    Raises:
        TextError: the text has no such word.
    """
    wanted = wanted.strip()
    whole = [word for word in words if not word.special and word.text == wanted]
    if not whole:
        whole = [w for w in words if not w.special and w.text.casefold() == wanted.casefold()]
    if whole:
        return tuple((word, None) for word in whole)
    found = []
    for match in re.finditer(re.escape(wanted), text) if wanted else ():
        held = [
            w for w in words if w.start < match.end() and w.end > match.start() and not w.special
        ]
        if held:
            one = Word(
                text[held[0].start : held[-1].end],
                held[0].start,
                held[-1].end,
                held[0].first,
                held[-1].last,
            )
            more = one.text.strip() != wanted
            note = f"the tokens of {wanted!r} hold more than it: {one.text.strip()!r}"
            found.append((one, note if more else None))
    if not found:
        known = ", ".join(dict.fromkeys(w.text for w in words if not w.special))
        raise TextError(f"{wanted!r} is not in the text; its words are: {known}")
    return tuple(dict.fromkeys(found))


def to_words(
    pattern: Float[np.ndarray, "query key"],
    queries: Sequence[Word],
    keys: Sequence[Word],
) -> Float[np.ndarray, "query_word key_word"]:
    """A pattern over tokens as one over words, by Clark et al.'s rule: sum to a word, mean from a word."""
    to = np.add.reduceat(pattern, [word.first for word in keys], axis=1)
    counts = np.array([word.last - word.first for word in queries])
    means: np.ndarray = (
        np.add.reduceat(to, [word.first for word in queries], axis=0) / counts[:, None]
    )
    return means


def place_of(words: Sequence[Word], token: int) -> int:
    """The number of the word that holds a token."""
    return next(i for i, word in enumerate(words) if word.first <= token < word.last)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that stand more than once with their number: `the#2`."""
    total = Counter(names)
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(f"{name}#{seen[name]}" if total[name] > 1 else name)
    return told


def _borders(text: str) -> list[int]:
    """For every character the number of the word it is in; a space before a word is the word's."""
    numbers = [-1] * len(text)
    for count, match in enumerate(_WORD.finditer(_marked(text))):
        start = match.start() - (text[match.start() - 1 : match.start()] == " ")
        numbers[start : match.end()] = [count] * (match.end() - start)
    return numbers


def _marked(text: str) -> str:
    """The text with _MARK in the place of each mark and joiner."""
    return "".join(_MARK if _joins(c) else c for c in text)


def _joins(c: str) -> bool:
    return c in "\u200c\u200d" or unicodedata.category(c).startswith("M")


def _same_word(word: Word, token: Token, numbers: list[int]) -> bool:
    """Whether the token goes on with the word: overlapping characters, or letters of the same word."""
    if token.start == token.end or word.start == word.end:
        return token.start == token.end and word.end == token.start
    return token.start < word.end or numbers[word.end - 1] == numbers[token.start]


def _trimmed(word: Word) -> Word:
    text = word.text.strip()
    if not text:
        return word
    start = word.start + len(word.text) - len(word.text.lstrip())
    return Word(text, start, start + len(text), word.first, word.last, word.special)
