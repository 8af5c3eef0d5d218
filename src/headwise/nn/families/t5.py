"""T5, its version 1.1 and what is built like them (Flan-T5): positions as distances, in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.names import ConfigError
from headwise.nn.config import TransformerConfig
from headwise.nn.families.table import Derived, Family, Field, Weight, as_is, join, join_heads
from headwise.nn.models import EncoderDecoder

__all__ = ["T5"]

_TABLE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _stack(stack: str) -> dict[str, Weight]:
    ours, theirs = f"{stack}.blocks.{{i}}.", f"{stack}.block.{{i}}.layer."
    last = 2 if stack == "decoder" else 1
    found = {
        f"{stack}.relative.weight": as_is(f"{stack}.{_TABLE}"),
        f"{stack}.final_norm.weight": as_is(f"{stack}.final_layer_norm.weight"),
        f"{ours}attention_norm.weight": as_is(f"{theirs}0.layer_norm.weight"),
        **_attention(f"{ours}attention", f"{theirs}0.SelfAttention"),
        f"{ours}ffn_norm.weight": as_is(f"{theirs}{last}.layer_norm.weight"),
        f"{ours}ffn.w_in.weight": as_is(f"{theirs}{last}.DenseReluDense.wi.weight"),
        f"{ours}ffn.w_out.weight": as_is(f"{theirs}{last}.DenseReluDense.wo.weight"),
    }
    if stack == "decoder":
        found[f"{ours}cross_norm.weight"] = as_is(f"{theirs}1.layer_norm.weight")
        found |= _attention(f"{ours}cross_attention", f"{theirs}1.EncDecAttention")
    return found


def _attention(ours: str, theirs: str) -> dict[str, Weight]:
    return {
        f"{ours}.w_qkv.weight": join_heads(*(f"{theirs}.{x}.weight" for x in "qkv")),
        f"{ours}.w_o.weight": as_is(f"{theirs}.o.weight"),
    }


_GATED = {
    f"{stack}.blocks.{{i}}.ffn.w_in.weight": join(
        *(f"{stack}.block.{{i}}.layer.{last}.DenseReluDense.wi_{x}.weight" for x in "01")
    )
    for stack, last in (("encoder", 1), ("decoder", 2))
}

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "gated-gelu": "geglu_tanh",  # which its config turns into gelu_new
    "gated-silu": "swiglu",
}


def _activation(given: Mapping[str, Any]) -> str:
    """What feed_forward_proj says; the two fields that its config makes of it must say the same."""
    word = given.get("feed_forward_proj") or "relu"
    if word not in _ACTIVATIONS:
        raise ConfigError(
            f"feed_forward_proj={word!r} is not supported for model_type='t5'; "
            f"known are {', '.join(_ACTIVATIONS)}"
        )
    gated, inner = word.startswith("gated-"), word.removeprefix("gated-")
    inner = "gelu_new" if word == "gated-gelu" else inner
    for name, value in (("dense_act_fn", inner), ("is_gated_act", gated)):
        if given.get(name, value) != value:
            raise ConfigError(
                f"config.json contradicts itself: feed_forward_proj={word!r} makes {name}={value!r}, "
                f"and it says {given[name]!r}; leave the right one"
            )
    return _ACTIVATIONS[word]


def _say_activation(config: TransformerConfig) -> dict[str, str]:
    words = [word for word, ours in _ACTIVATIONS.items() if ours == config.activation]
    if not words:
        raise ConfigError(f"activation={config.activation!r}, for which it has no word")
    return {"feed_forward_proj": words[0]}


_SCALES = Derived(
    ("scale_decoder_outputs", "tie_word_embeddings"),
    # before transformers 5 the one field said both: version 1.1 ties nothing and scales nothing
    lambda given: given.get("scale_decoder_outputs", given.get("tie_word_embeddings") is not False),
    lambda config: {"scale_decoder_outputs": config.scale_logits},
)

T5 = Family(
    model_type="t5",
    model=EncoderDecoder,
    fields={
        "vocab_size": Field(("vocab_size",)),
        "d_model": Field(("d_model", "hidden_size")),
        "num_layers": Field(("num_layers", "num_hidden_layers")),
        "num_decoder_layers": Field(("num_decoder_layers",), None),
        "num_heads": Field(("num_heads", "num_attention_heads")),
        "head_dim": Field(("d_kv", "head_dim"), 64),
        "d_ff": Field(("d_ff",)),
        "activation": Derived(
            ("feed_forward_proj", "dense_act_fn", "is_gated_act"), _activation, _say_activation
        ),
        "relative_buckets": Field(("relative_attention_num_buckets",), 32),
        "relative_max_distance": Field(("relative_attention_max_distance",), 128),
        "norm_eps": Field(("layer_norm_epsilon",), 1e-6),
        "max_length": Field(("n_positions",), 512),
        "dropout": Field(("dropout_rate",), 0.1),
        "attention_dropout": Field(("dropout_rate",), 0.1),
        "scale_logits": _SCALES,
        "tie_embeddings": Field(("tie_word_embeddings",), True),
    },
    fixed={
        "attention_bias": False,
        "attention_out_bias": False,
        "ffn_bias": False,
        "attention_scale": 1.0,
        "norm": "rms",
        "norm_position": "pre",
        "final_norm": True,
        "positions": "relative",
        "share_embeddings": True,
    },
    allowed={"is_encoder_decoder": (True,), "is_decoder": (False,)},
    harmless=frozenset({"initializer_factor", "output_past"}),
    weights={
        "decoder.embedding.tokens.weight": as_is("shared.weight"),
        **_stack("encoder"),
        **_stack("decoder"),
        "decoder.unembed.weight": as_is("lm_head.weight"),
    },
    variants={"feed_forward_proj": {"gated-gelu": _GATED, "gated-silu": _GATED}},
    unused=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    prefix="",
    bare="",
    written={
        "architectures": ["T5ForConditionalGeneration"],
        "eos_token_id": None,
        "pad_token_id": None,
        "decoder_start_token_id": None,
    },
    twins={
        "decoder.embedding.tokens.weight": (
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
        )
    },
    output="lm_head.weight",
)
