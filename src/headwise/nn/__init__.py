"""Blocks to build with: attention, feed-forward, positions, models, caches, weight tables."""

from __future__ import annotations

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.block import Block, Surroundings
from headwise.nn.cache import KVCache, LayerCache
from headwise.nn.config import TransformerConfig
from headwise.nn.embedding import Embedding
from headwise.nn.feedforward import FeedForward
from headwise.nn.models import Decoder, Encoder, EncoderDecoder
from headwise.nn.norms import LayerNorm, RMSNorm
from headwise.nn.positions import alibi, alibi_slopes, place, rotary, rotate, sinusoidal
from headwise.nn.tables import config_from, known_family, load_checkpoint

__all__ = [
    "Block",
    "Decoder",
    "Embedding",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "KVCache",
    "LayerCache",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "Surroundings",
    "TransformerConfig",
    "alibi",
    "alibi_slopes",
    "config_from",
    "known_family",
    "load_checkpoint",
    "place",
    "rotary",
    "rotate",
    "sinusoidal",
]
