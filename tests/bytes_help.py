"""A tokenizer of bytes, for models that are made small."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers


def byte_tokenizer() -> tokenizers.Tokenizer:
    """Every byte a token: 书 is three of them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>"])
    return made
