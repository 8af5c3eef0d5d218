"""Whisper: an encoder of sound, pre-norm, keys without a bias."""

from __future__ import annotations

from headwise.nn.families.like_bart import ALLOWED, FIELDS, HARMLESS_TOO, KEPT, blocks, heads, norm
from headwise.nn.families.table import Family, Field, as_is
from headwise.nn.models import EncoderDecoder

__all__ = ["WHISPER"]

WHISPER = Family(
    model_type="whisper",
    model=EncoderDecoder,
    fields={
        **FIELDS,
        "num_heads": heads("num_attention_heads", "num_key_value_heads"),
        "dropout": Field(("dropout",), 0.0),
        "features": Field(("num_mel_bins",), 80),
        "encoder_max_length": Field(("max_source_positions",), 1500),
        "max_length": Field(("max_target_positions",), 448),
        "tie_embeddings": Field(("tie_word_embeddings",), True),
    },
    fixed={
        "norm": "layer",
        "norm_position": "pre",
        "final_norm": True,
        "positions": "learned",
    },
    allowed={name: values for name, values in ALLOWED.items() if name != "tie_word_embeddings"},
    harmless=HARMLESS_TOO
    | {
        # its classes read scale_embedding and apply it nowhere; features are masked in training only
        "apply_spec_augment",
        "classifier_proj_size",
        "mask_feature_length",
        "mask_feature_min_masks",
        "mask_feature_prob",
        "mask_time_length",
        "mask_time_min_masks",
        "mask_time_prob",
        "median_filter_width",
        "scale_embedding",
        "use_weighted_layer_sum",
    },
    weights={
        **norm("encoder.features.conv_in", "encoder.conv1"),
        **norm("encoder.features.conv_half", "encoder.conv2"),
        "encoder.embedding.positions.weight": as_is("encoder.embed_positions.weight"),
        "decoder.embedding.tokens.weight": as_is("decoder.embed_tokens.weight"),
        "decoder.embedding.positions.weight": as_is("decoder.embed_positions.weight"),
        **blocks(key_bias=False),
        **norm("encoder.final_norm", "encoder.layer_norm"),
        **norm("decoder.final_norm", "decoder.layer_norm"),
        "decoder.unembed.weight": as_is("proj_out.weight"),
    },
    unused=(),
    prefix="model.",
    bare="WhisperModel",
    written={
        "architectures": ["WhisperForConditionalGeneration"],
        **KEPT,
        "decoder_start_token_id": 0,  # its class takes no None
        "begin_suppress_tokens": None,
    },
    twins={"decoder.embedding.tokens.weight": ("proj_out.weight",)},
)
