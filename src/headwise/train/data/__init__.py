"""Texts, tokens, rows: what a model learns from, as batches that a step's number names."""

from __future__ import annotations

from headwise.train.data.batch import IGNORED, Batch, Feed, once
from headwise.train.data.causal import CausalFeed, causal_feed
from headwise.train.data.masked import MaskedFeed, masked_feed
from headwise.train.data.pairs import PairsFeed, pairs_feed
from headwise.train.data.pairs_read import read_pairs
from headwise.train.data.reading import read_documents
from headwise.train.data.splitting import normalised, split_documents, split_pairs
from headwise.train.data.tokenizing import byte_bpe, check_vocabulary, encoded, tokenizer_of

__all__ = [
    "IGNORED",
    "Batch",
    "CausalFeed",
    "Feed",
    "MaskedFeed",
    "PairsFeed",
    "byte_bpe",
    "causal_feed",
    "check_vocabulary",
    "encoded",
    "masked_feed",
    "normalised",
    "once",
    "pairs_feed",
    "read_documents",
    "read_pairs",
    "split_documents",
    "split_pairs",
    "tokenizer_of",
]
