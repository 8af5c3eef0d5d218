"""Tokens of a text, each with its characters in the original string."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, runtime_checkable

from headwise.hub.tokenizer import Tokenizer, special_tokens
from headwise.names import TextError

_INVISIBLE = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u3000": "␣"}
_SKIN_TONES = range(0x1F3FB, 0x1F400)


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
        """The token as shown: without surrounding space, `书·2` for the second byte piece of 书.

        A text of nothing but marks that change another character (skin tones, joiners, accents)
        has nothing to show by itself, and is named by its code points: `U+1F3FD`.
        """
        text = self.text.strip() or self.text.replace(" ", "␣")
        alone = all(map(_is_modifier, text))
        text = (" ".join(map(_code, text)) if alone else "".join(map(_shown, text))) or "∅"
        return text if self.part is None else f"{text}·{self.part[0]}"


def _shown(c: str) -> str:
    return _INVISIBLE.get(c) or (c if c.isprintable() else _code(c))


def _code(c: str) -> str:
    return f"U+{ord(c):04X}"


def _is_modifier(c: str) -> bool:
    """Whether the character only changes another: a mark, a joiner, a skin tone."""
    return unicodedata.category(c) in {"Mn", "Me", "Cf"} or ord(c) in _SKIN_TONES


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
        TextError: the text is empty, no text at all, or of characters the tokenizer does not know.
    """
    if not isinstance(text, str):
        raise TextError(f"a text must be a string, came {type(text).__name__}")
    if not text.strip():
        raise TextError("the text is empty; give at least one word")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"the text is not UTF-8 (character {error.start}); convert it to UTF-8 first"
        ) from None
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
    if not tokens:
        raise TextError("the model's tokenizer knows none of the text's characters")
    return number_parts(tokens)


def tokens_of_ids(tokenizer: Tokenizer | None, ids: Sequence[int]) -> tuple[str, tuple[Token, ...]]:
    """A text that these ids may stand for, and their tokens in it; without a tokenizer, the ids as words."""
    decode = getattr(tokenizer, "decode", None)
    if decode is None:
        pieces = [str(i) for i in ids]
        starts = [0, *accumulate(len(piece) + 1 for piece in pieces)]
        return " ".join(pieces), tuple(
            Token(i, piece, start, start + len(piece))
            for i, piece, start in zip(ids, pieces, starts, strict=False)
        )
    special = special_tokens(tokenizer)
    text, tokens = "", list[Token]()
    context = done = 0  # ids[context:done] are known text, ids[done:] not yet
    for at, id in enumerate(ids):
        if id in special:
            tokens.append(Token(id, special[id], len(text), len(text), special=True))
            context = done = at + 1
            continue
        known = decode(ids[context:done], skip_special_tokens=False)
        now = decode(ids[context : at + 1], skip_special_tokens=False)
        last = at + 1 == len(ids) or ids[at + 1] in special
        if now.endswith("\ufffd") and not last:
            continue  # bytes of a character that goes on
        piece = now[len(known) :]
        end = len(text) + len(piece)
        tokens += [Token(i, piece, len(text), end) for i in ids[done : at + 1]]
        text, context, done = text + piece, done, at + 1
    return text, number_parts(tokens)


def number_parts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Number the tokens that share characters with one another: the byte pieces of one character."""
    numbered: list[Token] = []
    run: list[Token] = []
    for token in (*tokens, None):
        if run and token is not None and not token.special and token.start < run[-1].end:
            run.append(token)
            continue
        whole = len(run) == 1
        numbered.extend(
            t if whole else replace(t, part=(i, len(run))) for i, t in enumerate(run, 1)
        )
        run = [] if token is None else [token]
    return tuple(numbered)
