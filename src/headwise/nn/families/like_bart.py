"""What BART, mBART, Marian and Whisper share: the names of their blocks, and fields said once for each stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from headwise.names import ConfigError
from headwise.nn.config import TransformerConfig
from headwise.nn.families.table import Derived, Field, Weight, as_is, join_heads

__all__ = [
    "ALLOWED",
    "FIELDS",
    "HARMLESS_TOO",
    "KEPT",
    "OUTPUT",
    "SHARED",
    "TEXT",
    "TWINS",
    "blocks",
    "heads",
    "norm",
    "same",
]

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def same(ours: str, *names: str, beside: tuple[str, ...] = ()) -> Derived:
    """A field of ours that both stacks have, which theirs may have each for itself.

    Args:
        ours: the field.
        names: theirs, each of which a checkpoint must state.
        beside: further names of it, which it may state.
    """

    every = (*names, *beside)

    def read(given: Mapping[str, Any]) -> Any:
        found = {name: given[name] for name in every if given.get(name) is not None}
        for name in names:
            if name not in found:
                raise ConfigError(f"config.json lacks {name}")
        if len(set(found.values())) > 1:
            said = " and ".join(f"{name}={value!r}" for name, value in found.items())
            raise ConfigError(
                f"{said} are not supported: our encoder and decoder have one {ours}; "
                "load it with transformers instead"
            )
        return next(iter(found.values()))

    def write(config: TransformerConfig) -> dict[str, Any]:
        return {name: getattr(config, ours) for name in names}

    return Derived(every, read, write)


def heads(*beside: str) -> Derived:
    """The heads, and names by which their classes call those of the encoder."""
    return same("num_heads", "encoder_attention_heads", "decoder_attention_heads", beside=beside)


FIELDS: Mapping[str, Field | Derived] = {
    "vocab_size": Field(("vocab_size",)),
    "d_model": Field(("d_model", "hidden_size")),
    "num_layers": Field(("encoder_layers", "num_hidden_layers")),
    "num_decoder_layers": Field(("decoder_layers",)),
    "num_heads": heads("num_attention_heads"),
    "d_ff": same("d_ff", "encoder_ffn_dim", "decoder_ffn_dim"),
    "activation": Field(("activation_function",), "gelu", ACTIVATIONS),
    "dropout": Field(("dropout",), 0.1),
    "attention_dropout": Field(("attention_dropout",), 0.0),
}
"""Fields of all of them."""

TEXT: Mapping[str, Field | Derived] = {
    **FIELDS,
    "max_length": Field(("max_position_embeddings",), 1024),
    "scale_embeddings": Field(("scale_embedding",), False),
}
"""Fields of those that read text."""

ALLOWED: Mapping[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "add_bias_logits": (False,),
    "add_final_layer_norm": (False,),
    "tie_word_embeddings": (True,),
}

HARMLESS_TOO = frozenset(
    # dropout within a layer and of whole layers: in training only, and ours takes none
    {
        "activation_dropout",
        "classif_dropout",
        "decoder_layerdrop",
        "encoder_layerdrop",
        "extra_pos_embeddings",
        "force_bos_token_to_be_generated",
        "init_std",
        "output_past",
        "save_step",
    }
)

KEPT: Mapping[str, Any] = {
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "decoder_start_token_id": None,
    "forced_eos_token_id": None,
}
"""Tokens that their classes would take for granted."""

SHARED = {"decoder.embedding.tokens.weight": as_is("shared.weight")}
"""One token embedding for both stacks."""

OUTPUT = {
    "decoder.output_bias": Weight(
        ("final_logits_bias",),
        lambda found: found[0].reshape(-1),
        lambda ours, rows: [ours[None]],
        optional=True,
    )
}
"""A bias that their base models do not have, and that is 0 where it is not stored."""

TWINS = {
    "decoder.embedding.tokens.weight": (
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "lm_head.weight",
    )
}


def norm(ours: str, theirs: str) -> dict[str, Weight]:
    """The two weights of a LayerNorm, or of any module with a bias."""
    return {f"{ours}.{part}": as_is(f"{theirs}.{part}") for part in ("weight", "bias")}


def blocks(key_bias: bool = True) -> dict[str, Weight]:
    """The weights of the blocks of both stacks.

    Args:
        key_bias: keys have a bias. One changes no softmax: where they have none it is 0 here, and
            left out again.
    """
    found: dict[str, Weight] = {}
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.blocks.{{i}}.", f"{stack}.layers.{{i}}."
        found |= _attention(f"{ours}attention", f"{theirs}self_attn", key_bias)
        found |= norm(f"{ours}attention_norm", f"{theirs}self_attn_layer_norm")
        if stack == "decoder":
            found |= _attention(f"{ours}cross_attention", f"{theirs}encoder_attn", key_bias)
            found |= norm(f"{ours}cross_norm", f"{theirs}encoder_attn_layer_norm")
        found |= norm(f"{ours}ffn.w_in", f"{theirs}fc1")
        found |= norm(f"{ours}ffn.w_out", f"{theirs}fc2")
        found |= norm(f"{ours}ffn_norm", f"{theirs}final_layer_norm")
    return found


def _attention(ours: str, theirs: str, key_bias: bool) -> dict[str, Weight]:
    weights, biases = ([f"{theirs}.{x}_proj.{part}" for x in "qkv"] for part in ("weight", "bias"))
    return {
        f"{ours}.w_qkv.weight": join_heads(*weights),
        f"{ours}.w_qkv.bias": join_heads(*biases) if key_bias else _without_key(*biases[::2]),
        **norm(f"{ours}.w_o", f"{theirs}.out_proj"),
    }


def _without_key(queries: str, values: str) -> Weight:
    """Biases of queries and values, and 0 for the keys between them."""
    return Weight(
        (queries, values),
        lambda found: torch.cat((found[0], torch.zeros_like(found[1]), found[1])),
        lambda ours, rows: ours.split_with_sizes(list(rows))[::2],
    )
