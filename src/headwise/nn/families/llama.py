"""Llama and what is built like it (SmolLM2, TinyLlama)."""

from __future__ import annotations

from headwise.nn.config import TransformerConfig
from headwise.nn.families.like_llama import ALLOWED, FIELDS, FIXED, KEPT, TWINS, UNUSED, WEIGHTS
from headwise.nn.families.table import Family, Field
from headwise.nn.models import Decoder

__all__ = ["LLAMA"]


def _refuses(config: TransformerConfig) -> str:
    if config.d_model % config.num_heads == 0:
        return ""
    return f"d_model={config.d_model} is no multiple of num_heads={config.num_heads}, which its class refuses"


LLAMA = Family(
    model_type="llama",
    model=Decoder,
    fields={
        **FIELDS,
        "attention_bias": Field(("attention_bias",), False),
        "attention_out_bias": Field(("attention_bias",), False),
        "ffn_bias": Field(("mlp_bias",), False),
        "max_length": Field(("max_position_embeddings",), 2048),
    },
    fixed=FIXED,
    allowed={**ALLOWED, "pretraining_tp": (1, None), "sliding_window": (None,)},
    harmless=frozenset({"is_llama_config", "is_decoder"}),
    weights=WEIGHTS,
    unused=UNUSED,
    prefix="model.",
    bare="LlamaModel",
    written={"architectures": ["LlamaForCausalLM"], **KEPT},
    twins=TWINS,
    refuses=_refuses,
)
