"""Llama and what is built like it (SmolLM2, TinyLlama)."""

from __future__ import annotations

from headwise.nn.families.table import Family, Field, as_is, join, join_heads
from headwise.nn.models import Decoder

__all__ = ["LLAMA"]

_ATTENTION = "layers.{i}.self_attn."
_MLP = "layers.{i}.mlp."

LLAMA = Family(
    model_type="llama",
    model=Decoder,
    fields={
        "vocab_size": Field(("vocab_size",)),
        "d_model": Field(("hidden_size",)),
        "num_layers": Field(("num_hidden_layers",)),
        "num_heads": Field(("num_attention_heads",)),
        "num_kv_heads": Field(("num_key_value_heads",), None),
        "head_dim": Field(("head_dim",), None),
        "d_ff": Field(("intermediate_size",)),
        "activation": Field(
            ("hidden_act",), "swiglu", {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu"}
        ),
        "norm_eps": Field(("rms_norm_eps",), 1e-6),
        "attention_bias": Field(("attention_bias",), False),
        "attention_out_bias": Field(("attention_bias",), False),
        "ffn_bias": Field(("mlp_bias",), False),
        "max_length": Field(("max_position_embeddings",), 2048),
        "rope_theta": Field(("rope_parameters.rope_theta", "rope_theta"), 10000.0),
        "attention_dropout": Field(("attention_dropout",), 0.0),
        "tie_embeddings": Field(("tie_word_embeddings",), False),
    },
    fixed={
        "norm": "rms",
        "norm_position": "pre",
        "final_norm": True,
        "positions": "rope",
        "dropout": 0.0,
    },
    allowed={
        "pretraining_tp": (1, None),
        "rope_parameters": (None,),
        "rope_parameters.rope_type": ("default", None),
        "rope_parameters.type": ("default", None),
        "rope_parameters.partial_rotary_factor": (1.0, None),
        "rope_scaling": (None,),
        "rope_scaling.rope_type": ("default", None),
        "rope_scaling.type": ("default", None),
        "rope_interleaved": (False, None),
        "partial_rotary_factor": (1.0, None),
        "sliding_window": (None,),
        "is_encoder_decoder": (False,),
        "add_cross_attention": (False,),
    },
    harmless=frozenset({"is_llama_config", "is_decoder"}),
    weights={
        "embedding.tokens.weight": as_is("embed_tokens.weight"),
        "blocks.{i}.attention_norm.weight": as_is("layers.{i}.input_layernorm.weight"),
        "blocks.{i}.attention.w_qkv.weight": join_heads(
            _ATTENTION + "q_proj.weight", _ATTENTION + "k_proj.weight", _ATTENTION + "v_proj.weight"
        ),
        "blocks.{i}.attention.w_qkv.bias": join_heads(
            _ATTENTION + "q_proj.bias", _ATTENTION + "k_proj.bias", _ATTENTION + "v_proj.bias"
        ),
        "blocks.{i}.attention.w_o.weight": as_is(_ATTENTION + "o_proj.weight"),
        "blocks.{i}.attention.w_o.bias": as_is(_ATTENTION + "o_proj.bias"),
        "blocks.{i}.ffn_norm.weight": as_is("layers.{i}.post_attention_layernorm.weight"),
        "blocks.{i}.ffn.w_in.weight": join(_MLP + "gate_proj.weight", _MLP + "up_proj.weight"),
        "blocks.{i}.ffn.w_in.bias": join(_MLP + "gate_proj.bias", _MLP + "up_proj.bias"),
        "blocks.{i}.ffn.w_out.weight": as_is(_MLP + "down_proj.weight"),
        "blocks.{i}.ffn.w_out.bias": as_is(_MLP + "down_proj.bias"),
        "final_norm.weight": as_is("norm.weight"),
        "unembed.weight": as_is("lm_head.weight"),
    },
    unused=("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
    prefix="model.",
    bare="LlamaModel",
)
