"""Tokenizers and sides of a text made by hand."""

from __future__ import annotations

import tokenizers
import torch
from tokenizers import models, pre_tokenizers

import headwise as hw
from bytes_help import byte_tokenizer as byte_tokenizer
from headwise.see.probes import Probe
from headwise.see.record import Side
from headwise.see.texts.tokens import Token


def word_tokenizer(*words: str) -> tokenizers.Tokenizer:
    """Known words and punctuation are tokens, all else letters."""
    letters = "abcdefghijklmnopqrstuvwxyz.,'"
    vocabulary = {w: i for i, w in enumerate(dict.fromkeys(["<unk>", *letters, *words]))}
    pieces = {f"##{c}": len(vocabulary) + i for i, c in enumerate(letters)}
    made = tokenizers.Tokenizer(models.WordPiece({**vocabulary, **pieces}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def sharp(model: hw.Model) -> hw.Model:
    """With weights spread wide, so that heads look somewhere."""
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
    return model


def side_of(words: list[str]) -> Side:
    """A text of these words, each a token; equal words are equal tokens, `[..]` special ones."""
    ids = {word: i for i, word in enumerate(dict.fromkeys(words))}
    tokens, text = [], ""
    for word in words:
        if word.startswith("["):
            tokens.append(Token(ids[word], word, len(text), len(text), special=True))
            continue
        text += " " if text else ""
        tokens.append(Token(ids[word], word, len(text), len(text) + len(word)))
        text += word
    return Side(text, tuple(tokens))


def cut_into(text: str, *pieces: str, special: bool = True) -> Side:
    """A text whose tokens are these pieces one after the other, behind a special one; `[..]` are special."""
    tokens = [Token(0, "[CLS]", 0, 0, special=True)] if special else []
    at = 0
    for piece in pieces:
        if piece.startswith("["):
            tokens.append(Token(1, piece, at, at, special=True))
            continue
        start = text.index(piece, at)
        at = start + len(piece)
        tokens.append(Token(2 + len(tokens), piece, start, at))
    return Side(text, tuple(tokens))


def named_by(probe: Probe, queries: Side, keys: Side | None = None) -> dict[str, list[str]]:
    """What a probe of units names, by the texts of the units."""
    keys = queries if keys is None else keys
    ranges = probe.units(queries, keys)
    found = probe.links(queries, keys, ranges)
    return {
        _written(queries, here): [_written(keys, ranges[1][key]) for key in of]
        for here, of in zip(ranges[0], found, strict=True)
        if of
    }


def _written(side: Side, unit: tuple[int, int]) -> str:
    tokens = side.tokens[unit[0] : unit[1]]
    text = side.text[tokens[0].start : tokens[-1].end].strip()
    return text or "+".join(token.text for token in tokens)
