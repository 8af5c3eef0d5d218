"""Text to ids: a byte-level tokenizer made of the texts, or one that there is, and its special tokens.

A special token's name in a text is text like any other: no text can end a document or hide a token.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int
from tokenizers import decoders, models, pre_tokenizers, trainers

from headwise.hub.get import get
from headwise.hub.tokenizer import ENDS, adapt, read_tokenizer, special_tokens
from headwise.names import ConfigError, ModelError, TextError

__all__ = [
    "BEGINS",
    "ENDS",
    "MASKS",
    "MOST_IDS",
    "byte_bpe",
    "check_vocabulary",
    "encoded",
    "known_id",
    "special_id",
    "tokenizer_of",
]

BEGINS = ("<|begin_of_text|>", "<s>", "<bos>", "[CLS]")
"""Customary names of the token that begins one."""

MASKS = ("[MASK]", "<mask>", "<|mask|>")
"""Customary names of the token that hides another."""

MOST_IDS = 1 << 20
"""Of a tokenizer that is made: several times those of the largest models."""

_PART = 1 << 20
"""Characters that are encoded between two words on progress."""

Progress = Callable[[int, int], None]
"""Told how many characters are done, and how many there are."""


def byte_bpe(
    texts: Sequence[str],
    vocab_size: int,
    special: Sequence[str] = ("<|endoftext|>",),
    *,
    progress: bool = False,
) -> tokenizers.Tokenizer:
    """Learn a byte-level BPE (as GPT-2's: its pieces, no normaliser), from which any text comes back byte for byte.

    Ctrl-C stops it at once.

    Args:
        texts: what it learns from.
        vocab_size: at most so many ids; a small text has fewer pieces that occur twice.
        special: names of the special tokens, which get the first ids.
        progress: whether bars are shown, on a terminal.

    Raises:
        ConfigError: too few ids for the 256 bytes and the special tokens, or a special token named twice.
        TextError: no text.
    """
    least = 256 + len(special)
    if isinstance(vocab_size, bool) or not isinstance(vocab_size, int) or vocab_size < least:
        raise ConfigError(
            f"vocab_size={vocab_size} is too small; the 256 bytes and {len(special)} special tokens need {least}"
        )
    if vocab_size > MOST_IDS:
        raise ConfigError(f"vocab_size must be {MOST_IDS:,} or less, came a larger number")
    if len(set(special)) < len(special) or "" in special:
        raise ConfigError(f"special={list(special)} must be different names, none of them empty")
    if not any(texts):
        raise TextError("there is no text to make a tokenizer of; give more text")
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=list(special),
        show_progress=progress,
    )
    _interruptible(lambda: made.train_from_iterator(texts, trainer, length=len(texts)))
    return made


def tokenizer_of(said: str | Path) -> tokenizers.Tokenizer:
    """A tokenizer that there is.

    Args:
        said: a tokenizer.json, a model's folder, or a model's name.

    Raises:
        ModelError: it cannot be found or read, or is of a kind that the tokenizers library does not read.
    """
    path = Path(said)
    found: Any = None
    if path.is_file():
        try:
            found = adapt(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"{path} cannot be read as a tokenizer.json: {error}") from None
    else:
        found = read_tokenizer(path if path.is_dir() else get(str(said)))
    if not isinstance(found, tokenizers.Tokenizer):
        raise ModelError(
            f"{said} has no tokenizer that can be saved as a tokenizer.json; give another"
        )
    return found


def known_id(tokenizer: tokenizers.Tokenizer, names: Sequence[str]) -> int | None:
    """The id of the first of these names that a tokenizer knows, None where it knows none."""
    found = (tokenizer.token_to_id(name) for name in names)
    return next((int(id) for id in found if id is not None), None)


def special_id(tokenizer: tokenizers.Tokenizer, names: Sequence[str], what: str) -> int:
    """The id of the first of these names that a tokenizer knows.

    Args:
        tokenizer: whose.
        names: candidates.
        what: what it is for, in the message.

    Raises:
        ConfigError: it knows none.
    """
    found = known_id(tokenizer, names)
    if found is not None:
        return found
    known = ", ".join(sorted(special_tokens(tokenizer).values())) or "none"
    raise ConfigError(
        f"the tokenizer has no token {what} ({', '.join(names)}); its special tokens are {known}: name one"
    )


def check_vocabulary(tokenizer: tokenizers.Tokenizer, vocab_size: int) -> None:
    """Refuse a tokenizer with ids that a model has no embedding for.

    Raises:
        ConfigError: it has such.
    """
    has = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if has > vocab_size:
        raise ConfigError(
            f"the tokenizer has {has:,} ids and the model embeds vocab_size={vocab_size:,}; "
            f"use the model's own tokenizer, or vocab_size={has}"
        )


def encoded(
    tokenizer: tokenizers.Tokenizer, texts: Sequence[str], progress: Progress | None = None
) -> list[Int[np.ndarray, " _"]]:
    """The ids of each text, without special tokens, many texts at a time on all cores.

    Args:
        tokenizer: reads them.
        texts: as many as there are.
        progress: told of every part that is done.

    Raises:
        TextError: texts that it cannot read.
    """
    plain = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    total, done = sum(map(len, texts)), 0
    ids: list[Int[np.ndarray, " _"]] = []
    for part in _parts(texts):
        try:
            found = plain.encode_batch_fast(part, add_special_tokens=False)
        except Exception as error:  # the library raises bare Exception
            raise TextError(f"the tokenizer cannot read these texts: {error}") from None
        ids += [np.array(one.ids, dtype=np.int32) for one in found]
        done += sum(map(len, part))
        if progress is not None:
            progress(done, total)
    return ids


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        part.append(text)
        size += len(text)
        if size >= _PART:
            yield part
            part, size = [], 0
    if part:
        yield part


def _interruptible(work: Callable[[], None]) -> None:
    """Do the work beside the main thread, which alone hears Ctrl-C."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if failed:
        raise failed[0]
