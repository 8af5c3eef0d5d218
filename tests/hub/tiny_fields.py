"""What the tables of tiny models share: the form of an entry, and fields that many families have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

VOCAB = 40


class Family(NamedTuple):
    """One tiny model: config class and model class of transformers, the config's fields, and inputs.

    An input is a shape (numbers drawn at random) or a list of rows (ids); None = a text.
    """

    config: str
    model: str
    fields: Mapping[str, Any]
    inputs: Mapping[str, tuple[int, ...] | list[list[int]]] | None = None


DECODER: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ENCODER: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
IDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    **IDS,
}
BART: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "decoder_start_token_id": 2,
    **IDS,
}
T5: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "d_kv": 6,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
VISION: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 12,
    "patch_size": 4,
}
WINDOWS: dict[str, Any] = {
    "sliding_window": 3,
    "layer_types": ["sliding_attention", "full_attention"],
}
