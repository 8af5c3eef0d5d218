"""Marian (opus-mt): post-norm, positions of sines and then cosines, which are not learned."""

from __future__ import annotations

from headwise.nn.families.like_bart import (
    ALLOWED,
    HARMLESS_TOO,
    KEPT,
    OUTPUT,
    SHARED,
    TEXT,
    TWINS,
    blocks,
    same,
)
from headwise.nn.families.table import Family, Field, as_is
from headwise.nn.models import EncoderDecoder

__all__ = ["MARIAN"]

MARIAN = Family(
    model_type="marian",
    model=EncoderDecoder,
    fields={
        **TEXT,
        "vocab_size": same("vocab_size", "vocab_size", beside=("decoder_vocab_size",)),
        "share_embeddings": Field(("share_encoder_decoder_embeddings",), True),
    },
    fixed={
        "norm": "layer",
        "norm_position": "post",
        "final_norm": False,
        "positions": "sinusoidal",
        "sinusoids": "halves",
        "output_bias": True,
    },
    allowed={
        **ALLOWED,
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "static_position_embeddings": (True,),
    },
    harmless=HARMLESS_TOO,
    weights={**SHARED, **blocks(), **OUTPUT},
    variants={
        "share_encoder_decoder_embeddings": {
            False: {
                "encoder.embedding.tokens.weight": as_is("encoder.embed_tokens.weight"),
                "decoder.embedding.tokens.weight": as_is("decoder.embed_tokens.weight"),
            }
        }
    },
    unused=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
    prefix="model.",
    bare="MarianModel",
    written={
        "architectures": ["MarianMTModel"],
        **KEPT,
        "decoder_start_token_id": 0,  # its class takes no None
    },
    twins=TWINS,
)
