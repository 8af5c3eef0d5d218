"""Pieces of text around tokens that are kept, so that what a corpus leaves is bounded by how many are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headwise.see.record import Side
from headwise.see.texts.tokens import Token

__all__ = ["Context", "Snippet", "context_of", "snippet_of", "window_of", "windows_of"]

_WINDOW = 64
_AROUND = 32
"""Tokens: a snippet serves all tokens of one window of a text, and reaches so far to either side."""


@dataclass(frozen=True)
class Snippet:
    """Consecutive tokens of a text, their places counted in `text`, a slice of it.

    Attributes:
        first: the position of its first token in the row the model read.
        row: the number of that row (a text, or a piece of one that was cut), in the order of reading.
    """

    row: int
    first: int
    text: str
    tokens: tuple[Token, ...]

    def dumps(self) -> str:
        """As JSON."""
        rows = [[t.id, t.text, t.start, t.end, int(t.special), t.part] for t in self.tokens]
        return json.dumps([self.row, self.first, self.text, rows], ensure_ascii=False)

    @classmethod
    def loads(cls, data: str) -> Snippet:
        """Read what `dumps` gave."""
        row, first, text, rows = json.loads(data)
        tokens = (
            Token(id, name, start, end, bool(special), None if part is None else (part[0], part[1]))
            for id, name, start, end, special, part in rows
        )
        return cls(row, first, text, tuple(tokens))


@dataclass(frozen=True)
class Context:
    """One token that fired a neuron, in its text.

    `before` and `after` are the text around it, without the characters of the token itself; a token that is a part
    of a character has the whole character, and `token.label` says which part.
    """

    activation: float
    token: Token
    before: str
    after: str
    position: int
    row: int


def window_of(position: int) -> int:
    """The number of the window a position is in."""
    return position // _WINDOW


def snippet_of(row: int, side: Side, window: int) -> Snippet:
    """The snippet that serves one window of a row."""
    start = max(0, window * _WINDOW - _AROUND)
    tokens = side.tokens[start : (window + 1) * _WINDOW + _AROUND]
    real = [token for token in tokens if not token.special]
    left, right = (real[0].start, max(t.end for t in real)) if real else (0, 0)
    moved = [_moved(token, left, right) for token in tokens]
    return Snippet(row, start, side.text[left:right], tuple(moved))


def context_of(snippet: Snippet, position: int, activation: float) -> Context:
    """A token of a snippet, in its text."""
    token = snippet.tokens[position - snippet.first]
    before, after = snippet.text[: token.start], snippet.text[token.end :]
    return Context(activation, token, before, after, position, snippet.row)


def _moved(token: Token, left: int, right: int) -> Token:
    """The token with places counted from `left`."""
    start, end = (min(max(place, left), right) - left for place in (token.start, token.end))
    return replace(token, start=start, end=end)


def windows_of(places: Iterable[int], stride: int) -> set[tuple[int, int]]:
    """(row, window) of numbered tokens, row * stride + position."""
    return {(place // stride, window_of(place % stride)) for place in places}
