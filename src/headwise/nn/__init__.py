"""Blocks to build with: attention, feed-forward, positions, models, caches, weight tables."""

from __future__ import annotations

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.block import Block, Surroundings
from headwise.nn.building import build
from headwise.nn.cache import KVCache, LayerCache
from headwise.nn.checkpointing import checkpoint_activations
from headwise.nn.config import TransformerConfig
from headwise.nn.embedding import Embedding
from headwise.nn.feedforward import FeedForward
from headwise.nn.fields import config_from, known_family
from headwise.nn.generating.writing import generate
from headwise.nn.models import Decoder, Encoder, EncoderDecoder
from headwise.nn.norms import LayerNorm, RMSNorm
from headwise.nn.positions import alibi, alibi_slopes, place, rotary, rotate, sinusoidal
from headwise.nn.saving import checkpoint_config, save_checkpoint, why_unfit
from headwise.nn.scaling import RopeScaling
from headwise.nn.tables import load_checkpoint

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
    "RopeScaling",
    "Surroundings",
    "TransformerConfig",
    "alibi",
    "alibi_slopes",
    "build",
    "checkpoint_activations",
    "checkpoint_config",
    "config_from",
    "generate",
    "known_family",
    "load_checkpoint",
    "place",
    "rotary",
    "rotate",
    "save_checkpoint",
    "sinusoidal",
    "why_unfit",
]
