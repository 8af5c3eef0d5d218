"""GPT-2, and DistilGPT-2."""

from __future__ import annotations

from headwise.nn.families.table import Derived, Family, Field, as_is, transpose
from headwise.nn.models import Decoder

__all__ = ["GPT2"]

_DROPOUT = Derived(
    ("resid_pdrop",),
    lambda given: 0.1 if given.get("resid_pdrop") is None else given["resid_pdrop"],
    lambda config: {"resid_pdrop": config.dropout, "embd_pdrop": config.dropout},
)

GPT2 = Family(
    model_type="gpt2",
    model=Decoder,
    fields={
        "vocab_size": Field(("vocab_size",)),
        "d_model": Field(("n_embd", "hidden_size")),
        "num_layers": Field(("n_layer", "num_hidden_layers")),
        "num_heads": Field(("n_head", "num_attention_heads")),
        "d_ff": Field(("n_inner",), None),
        "activation": Field(
            ("activation_function",),
            "gelu_tanh",
            {
                "gelu_new": "gelu_tanh",
                "gelu_pytorch_tanh": "gelu_tanh",
                "gelu": "gelu",
                "relu": "relu",
                "silu": "silu",
                "swish": "silu",
            },
        ),
        "norm_eps": Field(("layer_norm_epsilon",), 1e-5),
        "max_length": Field(("n_positions", "max_position_embeddings"), 1024),
        "dropout": _DROPOUT,
        "attention_dropout": Field(("attn_pdrop",), 0.1),
        "tie_embeddings": Field(("tie_word_embeddings",), True),
    },
    fixed={
        "attention_bias": True,
        "attention_out_bias": True,
        "ffn_bias": True,
        "norm": "layer",
        "norm_position": "pre",
        "final_norm": True,
        "positions": "learned",
    },
    allowed={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "is_encoder_decoder": (False,),
        "add_cross_attention": (False,),
    },
    harmless=frozenset(
        # embd_pdrop: in training our embeddings take the dropout of the stream
        {
            "n_ctx",
            "embd_pdrop",
            "reorder_and_upcast_attn",
            "is_decoder",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        }
    ),
    weights={
        "embedding.tokens.weight": as_is("wte.weight"),
        "embedding.positions.weight": as_is("wpe.weight"),
        "blocks.{i}.attention_norm.weight": as_is("h.{i}.ln_1.weight"),
        "blocks.{i}.attention_norm.bias": as_is("h.{i}.ln_1.bias"),
        "blocks.{i}.attention.w_qkv.weight": transpose("h.{i}.attn.c_attn.weight"),
        "blocks.{i}.attention.w_qkv.bias": as_is("h.{i}.attn.c_attn.bias"),
        "blocks.{i}.attention.w_o.weight": transpose("h.{i}.attn.c_proj.weight"),
        "blocks.{i}.attention.w_o.bias": as_is("h.{i}.attn.c_proj.bias"),
        "blocks.{i}.ffn_norm.weight": as_is("h.{i}.ln_2.weight"),
        "blocks.{i}.ffn_norm.bias": as_is("h.{i}.ln_2.bias"),
        "blocks.{i}.ffn.w_in.weight": transpose("h.{i}.mlp.c_fc.weight"),
        "blocks.{i}.ffn.w_in.bias": as_is("h.{i}.mlp.c_fc.bias"),
        "blocks.{i}.ffn.w_out.weight": transpose("h.{i}.mlp.c_proj.weight"),
        "blocks.{i}.ffn.w_out.bias": as_is("h.{i}.mlp.c_proj.bias"),
        "final_norm.weight": as_is("ln_f.weight"),
        "final_norm.bias": as_is("ln_f.bias"),
        "unembed.weight": as_is("lm_head.weight"),
    },
    unused=("h.*.attn.bias", "h.*.attn.masked_bias"),
    prefix="transformer.",
    bare="GPT2Model",
    written={
        "architectures": ["GPT2LMHeadModel"],
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    },
    twins={"embedding.tokens.weight": ("lm_head.weight",)},
)
