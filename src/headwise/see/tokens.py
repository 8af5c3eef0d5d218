"""Tokens of a text, each with its characters in the original string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, runtime_checkable

from headwise.hub.tokenizer import Tokenizer
from headwise.names import TextError

_INVISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u3000": "␣"}


@dataclass(frozen=True)
class Token:
    """One token of a text.

    `text[start:end]` of the original string is what the token stands for; special tokens that stand for
    nothing have start == end and carry their name in `text`. A character cut into several byte tokens gives
    each of them the whole character; `part` is then (1-based index, count), else None.
    """

    id: int
    text: str
    start: int
    end: int
    special: bool = False
    part: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The token as shown: without surrounding space, `书·2` for the second byte piece of 书."""
        text = self.text.strip()
        if not text:
            text = "".join(_INVISIBLE.get(c, "") for c in self.text) or "∅"
        return text if self.part is None else f"{text}·{self.part[0]}"


@runtime_checkable
class Encoding(Protocol):
    """What we need of an encoding of the tokenizers library."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]


def tokenize(tokenizer: Tokenizer, text: str) -> tuple[Token, ...]:
    """The tokens of a text, special tokens included.

    Raises:
        TextError: the text is empty, or no text at all.
    """
    if not isinstance(text, str):
        raise TextError(f"a text must be a string, came {type(text).__name__}")
    if not text.strip():
        raise TextError("the text is empty; give at least one word")
    encoding: Encoding = tokenizer.encode(text)
    tokens = [
        Token(id, name if special else text[start:end], start, end, bool(special))
        for id, name, (start, end), special in zip(
            encoding.ids,
            encoding.tokens,
            encoding.offsets,
            encoding.special_tokens_mask,
            strict=True,
        )
    ]
    return number_parts(tokens)


def number_parts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Number the tokens that share the characters of one another: the byte pieces of one character."""
    numbered: list[Token] = []
    for (start, end, special), group in groupby(tokens, lambda t: (t.start, t.end, t.special)):
        pieces = list(group)
        if len(pieces) > 1 and end > start and not special:
            pieces = [replace(t, part=(i, len(pieces))) for i, t in enumerate(pieces, 1)]
        numbered.extend(pieces)
    return tuple(numbered)
