"""Tokenizers and texts small enough to look at."""

from __future__ import annotations

import tokenizers
from tokenizers import models, pre_tokenizers

END, MASK, LETTERS = 0, 1, "abcdefghijklmnopqrstuvwxyz"


def letters(special: tuple[str, ...] = ("<|endoftext|>", "<|mask|>")) -> tokenizers.Tokenizer:
    """One token for each letter: ids 2, 3, ..., behind those of an end and a mask."""
    names = [*special, *LETTERS]
    made = tokenizers.Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.add_special_tokens(list(special))
    return made


def ids_of(text: str) -> list[int]:
    return [LETTERS.index(letter) + 2 for letter in text]
