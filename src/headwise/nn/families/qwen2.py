"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from headwise.nn.families.like_llama import (
    ALLOWED,
    FIELDS,
    FIXED,
    KEPT,
    TWINS,
    UNUSED,
    WEIGHTS,
    WINDOW_BY_LAYER,
)
from headwise.nn.families.table import Family, Field
from headwise.nn.models import Decoder

__all__ = ["QWEN2"]

_ITS_OWN = "headwise.PreTrainedTokenizerFast"
"""Code that is not there, and that nobody trusts: transformers 5 reads this family with Qwen2Tokenizer, which
splits digits and composes accents, whatever class a folder names, but where the folder names code too."""

QWEN2 = Family(
    model_type="qwen2",
    model=Decoder,
    fields={
        **FIELDS,
        "num_kv_heads": Field(("num_key_value_heads",), 32, null=True),
        "max_length": Field(("max_position_embeddings",), 32768),
        "window": WINDOW_BY_LAYER,
    },
    fixed={
        **FIXED,
        "attention_bias": True,
        "attention_out_bias": False,
        "ffn_bias": False,
    },
    allowed={**ALLOWED, "use_mrope": (False, None)},
    harmless=frozenset({"is_decoder"}),
    weights=WEIGHTS,
    unused=UNUSED,
    prefix="model.",
    bare="Qwen2Model",
    written={"architectures": ["Qwen2ForCausalLM"], **KEPT},
    twins=TWINS,
    tokenizer={"auto_map": {"AutoTokenizer": [_ITS_OWN, _ITS_OWN]}},
)
