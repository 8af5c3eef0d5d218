"""Qwen3: Llama with a norm on queries and keys, and a size of heads of its own."""

from __future__ import annotations

from headwise.nn.families.like_llama import (
    ALLOWED,
    FIELDS,
    FIXED,
    KEPT,
    QK_NORM,
    TWINS,
    UNUSED,
    WEIGHTS,
    WINDOW_BY_LAYER,
)
from headwise.nn.families.table import Family, Field
from headwise.nn.models import Decoder

__all__ = ["QWEN3"]

QWEN3 = Family(
    model_type="qwen3",
    model=Decoder,
    fields={
        **FIELDS,
        "num_kv_heads": Field(("num_key_value_heads",), 32, null=True),
        "head_dim": Field(("head_dim",), 128),
        "attention_bias": Field(("attention_bias",), False),
        "attention_out_bias": Field(("attention_bias",), False),
        "max_length": Field(("max_position_embeddings",), 32768),
        "window": WINDOW_BY_LAYER,
    },
    fixed={**FIXED, "qk_norm": True, "ffn_bias": False},
    allowed=ALLOWED,
    harmless=frozenset({"is_decoder"}),
    weights={**WEIGHTS, **QK_NORM},
    unused=UNUSED,
    prefix="model.",
    bare="Qwen3Model",
    written={"architectures": ["Qwen3ForCausalLM"], **KEPT},
    twins=TWINS,
)
