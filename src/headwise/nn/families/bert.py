"""BERT encoders (MiniLM, multilingual-e5-small): hidden states, and the head for hidden words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.names import ConfigError
from headwise.nn.families.table import Derived, Family, Field, as_is, join_heads
from headwise.nn.models import Encoder

__all__ = ["BERT"]

_SELF = "encoder.layer.{i}.attention.self."
_OUTPUT = "encoder.layer.{i}.attention.output."
_LAYER = "encoder.layer.{i}."
_HEAD = "cls.predictions."
_WITH_HEAD = ("BertForMaskedLM", "BertForPreTraining")
_BARE = "BertModel"


def _has_head(given: Mapping[str, Any]) -> bool:
    return any(name in _WITH_HEAD for name in given.get("architectures") or ())


def _tied(given: Mapping[str, Any]) -> bool:
    """Without a head there is nothing that could be tied or not."""
    if _has_head(given) and given.get("tie_word_embeddings") is False:
        raise ConfigError(
            "tie_word_embeddings=False is not supported for model_type='bert' with a head; load it with "
            "transformers instead"
        )
    return True


BERT = Family(
    model_type="bert",
    model=Encoder,
    fields={
        "vocab_size": Field(("vocab_size",)),
        "d_model": Field(("hidden_size",)),
        "num_layers": Field(("num_hidden_layers",)),
        "num_heads": Field(("num_attention_heads",)),
        "d_ff": Field(("intermediate_size",)),
        "activation": Field(
            ("hidden_act",),
            "gelu",
            {
                "gelu": "gelu",
                "gelu_new": "gelu_tanh",
                "gelu_pytorch_tanh": "gelu_tanh",
                "relu": "relu",
                "silu": "silu",
                "swish": "silu",
            },
        ),
        "norm_eps": Field(("layer_norm_eps",), 1e-12),
        "max_length": Field(("max_position_embeddings",), 512),
        "token_types": Field(("type_vocab_size",), 2),
        "dropout": Field(("hidden_dropout_prob",), 0.1),
        "attention_dropout": Field(("attention_probs_dropout_prob",), 0.1),
        "masked_head": Derived(
            ("architectures",),
            _has_head,
            lambda config: {"architectures": [_WITH_HEAD[0] if config.masked_head else _BARE]},
        ),
        "tie_embeddings": Derived(("tie_word_embeddings",), _tied, lambda config: {}),
    },
    fixed={
        "attention_bias": True,
        "attention_out_bias": True,
        "ffn_bias": True,
        "norm": "layer",
        "norm_position": "post",
        "final_norm": False,
        "embedding_norm": True,
        "positions": "learned",
    },
    allowed={
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False,),
        "is_encoder_decoder": (False,),
        "add_cross_attention": (False,),
    },
    harmless=frozenset(
        # the pooler is left out
        {
            "directionality",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        }
    ),
    weights={
        "embedding.tokens.weight": as_is("embeddings.word_embeddings.weight"),
        "embedding.positions.weight": as_is("embeddings.position_embeddings.weight"),
        "embedding.segments.weight": as_is("embeddings.token_type_embeddings.weight"),
        "embedding.norm.weight": as_is("embeddings.LayerNorm.weight"),
        "embedding.norm.bias": as_is("embeddings.LayerNorm.bias"),
        "blocks.{i}.attention.w_qkv.weight": join_heads(
            _SELF + "query.weight", _SELF + "key.weight", _SELF + "value.weight"
        ),
        "blocks.{i}.attention.w_qkv.bias": join_heads(
            _SELF + "query.bias", _SELF + "key.bias", _SELF + "value.bias"
        ),
        "blocks.{i}.attention.w_o.weight": as_is(_OUTPUT + "dense.weight"),
        "blocks.{i}.attention.w_o.bias": as_is(_OUTPUT + "dense.bias"),
        "blocks.{i}.attention_norm.weight": as_is(_OUTPUT + "LayerNorm.weight"),
        "blocks.{i}.attention_norm.bias": as_is(_OUTPUT + "LayerNorm.bias"),
        "blocks.{i}.ffn.w_in.weight": as_is(_LAYER + "intermediate.dense.weight"),
        "blocks.{i}.ffn.w_in.bias": as_is(_LAYER + "intermediate.dense.bias"),
        "blocks.{i}.ffn.w_out.weight": as_is(_LAYER + "output.dense.weight"),
        "blocks.{i}.ffn.w_out.bias": as_is(_LAYER + "output.dense.bias"),
        "blocks.{i}.ffn_norm.weight": as_is(_LAYER + "output.LayerNorm.weight"),
        "blocks.{i}.ffn_norm.bias": as_is(_LAYER + "output.LayerNorm.bias"),
        "head.dense.weight": as_is(_HEAD + "transform.dense.weight"),
        "head.dense.bias": as_is(_HEAD + "transform.dense.bias"),
        "head.norm.weight": as_is(_HEAD + "transform.LayerNorm.weight"),
        "head.norm.bias": as_is(_HEAD + "transform.LayerNorm.bias"),
        "head.bias": as_is(_HEAD + "bias"),
    },
    unused=("pooler.*", "cls.*", "classifier.*", "qa_outputs.*", "embeddings.position_ids"),
    prefix="bert.",
    bare=_BARE,
    written={"pad_token_id": None},
    copies={"head.bias": (_HEAD + "decoder.weight", _HEAD + "decoder.bias")},
    twins={
        "embedding.tokens.weight": (_HEAD + "decoder.weight",),
        "head.bias": (_HEAD + "decoder.bias",),
    },
    old_endings={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
