"""Texts, tokens, rows: what a model learns from, as batches that a step's number names."""

from __future__ import annotations

from headwise.train.data.batch import IGNORED, Batch, Feed, once
from headwise.train.data.causal import CausalFeed, causal_feed
from headwise.train.data.masked import MaskedFeed, masked_feed
from headwise.train.data.tokenizing import byte_bpe, check_vocabulary, encoded, tokenizer_of

__all__ = [
    "IGNORED",
    "Batch",
    "CausalFeed",
    "Feed",
    "MaskedFeed",
    "byte_bpe",
    "causal_feed",
    "check_vocabulary",
    "encoded",
    "masked_feed",
    "once",
    "tokenizer_of",
]
