"""Mistral: Llama with a window of attention, where config.json gives one."""

from __future__ import annotations

from headwise.nn.families.like_llama import ALLOWED, FIELDS, FIXED, KEPT, TWINS, UNUSED, WEIGHTS
from headwise.nn.families.table import Family, Field
from headwise.nn.models import Decoder

__all__ = ["MISTRAL"]

MISTRAL = Family(
    model_type="mistral",
    model=Decoder,
    fields={
        **FIELDS,
        "num_kv_heads": Field(("num_key_value_heads",), 8, null=True),
        "max_length": Field(("max_position_embeddings",), 131072),
        "window": Field(("sliding_window",), 4096, null=True),
    },
    fixed={
        **FIXED,
        "attention_bias": False,
        "attention_out_bias": False,
        "ffn_bias": False,
    },
    allowed=ALLOWED,
    harmless=frozenset({"is_decoder"}),
    weights=WEIGHTS,
    unused=UNUSED,
    prefix="model.",
    bare="MistralModel",
    written={"architectures": ["MistralForCausalLM"], **KEPT},
    twins=TWINS,
)
