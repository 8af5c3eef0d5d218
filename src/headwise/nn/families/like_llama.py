"""What Llama, Qwen and Mistral have in common: RMSNorm before each part, rope, SwiGLU, one way to name weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.names import ConfigError
from headwise.nn.config import TransformerConfig
from headwise.nn.families.table import Derived, Field, Weight, as_is, join, join_heads
from headwise.nn.scaling import RopeScaling

__all__ = [
    "ALLOWED",
    "FIELDS",
    "FIXED",
    "KEPT",
    "QK_NORM",
    "TWINS",
    "UNUSED",
    "WEIGHTS",
    "WINDOW_BY_LAYER",
]

_ROPE = ("rope_parameters", "rope_scaling")
"""Their tables of how rope is scaled, of transformers 5 and of 4."""

_SCALING = {
    "factor": "factor",
    "original_length": "original_max_position_embeddings",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "attention_factor": "attention_factor",
    "truncate": "truncate",
}
"""Our fields of a RopeScaling -> theirs."""

_KINDS = {
    "linear": ("factor",),
    "llama3": ("factor", "original_length", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "original_length", "beta_fast", "beta_slow", "attention_factor", "truncate"),
}
"""What each kind reads of them; the rest changes nothing, as in theirs."""


def _scaling(given: Mapping[str, Any]) -> RopeScaling | None:
    """The scaling that config.json says."""
    said: dict[str, Any] = {}
    for name, value in given.items():
        outer, _, inner = name.partition(".")
        if inner == "truncate" and value is None:
            value = False  # as their code takes null
        if outer in _ROPE and inner and value is not None:
            inner = "rope_type" if inner == "type" else inner
            if said.setdefault(inner, value) != value:
                raise ConfigError(
                    f"config.json contradicts itself: {inner} is {said[inner]!r} and {value!r}; leave the right one"
                )
    kind = said.get("rope_type", "default")
    if kind == "default":
        return None
    if kind not in _KINDS:
        raise ConfigError(
            f"rope_type={kind!r} is not supported, only default, {', '.join(_KINDS)}; "
            "load it with transformers instead"
        )
    if said.get("mscale") and said.get("mscale_all_dim"):
        raise ConfigError("rope's mscale is not supported; load it with transformers instead")
    said.setdefault("original_max_position_embeddings", given.get("max_position_embeddings"))
    read = {ours: said[_SCALING[ours]] for ours in _KINDS[kind] if _SCALING[ours] in said}
    for ours in ("factor", "low_freq_factor", "high_freq_factor"):
        if ours in _KINDS[kind] and ours not in read:
            raise ConfigError(f"config.json lacks rope's {ours}, which rope_type={kind!r} needs")
    return RopeScaling(kind=kind, **read)


def _say_scaling(config: TransformerConfig) -> dict[str, Any]:
    scaling = config.rope_scaling
    if scaling is None:
        return {"rope_parameters.rope_type": "default"}
    said = {_SCALING[ours]: getattr(scaling, ours) for ours in _KINDS[scaling.kind]}
    said = {name: value for name, value in said.items() if value is not None}
    return {f"rope_parameters.{name}": x for name, x in {"rope_type": scaling.kind, **said}.items()}


_INNER = ("rope_type", "type", "mscale", "mscale_all_dim", *_SCALING.values())

FIELDS: dict[str, Field | Derived] = {
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
    "rope_theta": Field(("rope_parameters.rope_theta", "rope_theta"), 10000.0),
    "rope_scaling": Derived(
        tuple(f"{outer}.{inner}" for outer in _ROPE for inner in _INNER), _scaling, _say_scaling
    ),
    "attention_dropout": Field(("attention_dropout",), 0.0),
    "tie_embeddings": Field(("tie_word_embeddings",), False),
}
"""Of all of them; a family adds its biases, its longest text, its window."""


def _one_window(given: Mapping[str, Any]) -> int | None:
    """Qwen's window: of the layers from max_window_layers on, or of those that layer_types names."""
    used, window = given.get("use_sliding_window"), given.get("sliding_window", 4096)
    if used not in (None, False, True) or isinstance(window, bool):
        raise ConfigError(
            f"use_sliding_window={used!r} and sliding_window={window!r} are not supported; give true or false, "
            "and a number of tokens"
        )
    window = window if used else None
    layers = range(given.get("num_hidden_layers") or 0)
    first = layers.stop if window is None else given.get("max_window_layers", 28)
    kinds = given.get("layer_types") or [_LAYERS[i >= first] for i in layers]
    if len(kinds) != layers.stop:
        raise ConfigError(
            f"layer_types names {len(kinds)} layers, and num_hidden_layers={layers.stop}; give as many"
        )
    if len(set(kinds)) > 1 or not set(kinds) <= set(_LAYERS):
        raise ConfigError(
            f"sliding_window={window} of some layers alone is not supported (max_window_layers or layer_types); "
            "load it with transformers instead"
        )
    return window if set(kinds) == {_LAYERS[1]} else None


_LAYERS = ("full_attention", "sliding_attention")


def _say_one_window(config: TransformerConfig) -> dict[str, Any]:
    windowed = config.window is not None
    return {
        "use_sliding_window": windowed,
        "sliding_window": config.window,
        "max_window_layers": 0 if windowed else config.num_layers,
        "layer_types": [_LAYERS[windowed]] * config.num_layers,
    }


WINDOW_BY_LAYER = Derived(
    ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"),
    _one_window,
    _say_one_window,
)
"""The window of Qwen2 and Qwen3."""

FIXED: dict[str, Any] = {
    "norm": "rms",
    "norm_position": "pre",
    "final_norm": True,
    "positions": "rope",
    "dropout": 0.0,
}

ALLOWED: dict[str, tuple[Any, ...]] = {
    "rope_parameters": (None,),
    "rope_parameters.partial_rotary_factor": (1.0, None),
    "rope_scaling": (None,),
    "rope_interleaved": (False, None),
    "partial_rotary_factor": (1.0, None),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
}

KEPT = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
"""What a new config.json says, so that no default of theirs names a token that ours may not have."""

_ATTENTION = "layers.{i}.self_attn."
_MLP = "layers.{i}.mlp."

WEIGHTS: dict[str, Weight] = {
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
}
"""Their names for all weights that one of them has."""

QK_NORM: dict[str, Weight] = {
    "blocks.{i}.attention.q_norm.weight": as_is(_ATTENTION + "q_norm.weight"),
    "blocks.{i}.attention.k_norm.weight": as_is(_ATTENTION + "k_norm.weight"),
}

TWINS = {"embedding.tokens.weight": ("lm_head.weight",)}
"""Of a checkpoint whose config.json says that they are tied."""

UNUSED = ("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq")
