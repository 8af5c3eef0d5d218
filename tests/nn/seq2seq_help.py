"""Tiny random encoder-decoders of transformers, and what they give each sequence alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

SIDES = ("right", "left")
SOURCE_LENGTHS, TARGET_LENGTHS = (13, 22, 9), (17, 6, 21)

_SIZES = {
    "vocab_size": 31,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    "init_std": 0.3,
}
_T5 = {
    "vocab_size": 31,
    "d_model": 24,
    "d_kv": 5,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 6,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 14,
    "decoder_start_token_id": 0,
}
_SOUND = {
    "num_mel_bins": 8,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "begin_suppress_tokens": None,
}
_SHORT = {"max_position_embeddings": 32}

FAMILIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "bart": ("BartForConditionalGeneration", _SHORT),
    "bart scaled": (
        "BartForConditionalGeneration",
        _SHORT | {"scale_embedding": True, "activation_function": "relu"},
    ),
    "bart bare": ("BartModel", _SHORT),
    "mbart": ("MBartForConditionalGeneration", _SHORT),
    "marian": (
        "MarianMTModel",
        _SHORT | {"scale_embedding": True, "activation_function": "swish"},
    ),
    "marian unscaled": ("MarianMTModel", _SHORT),
    "marian two tables": ("MarianMTModel", _SHORT | {"share_encoder_decoder_embeddings": False}),
    "whisper": ("WhisperForConditionalGeneration", _SOUND),
    "t5": ("T5ForConditionalGeneration", {}),
    "t5 gated": ("T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
    "t5 gated silu": ("T5ForConditionalGeneration", {"feed_forward_proj": "gated-silu"}),
    "t5 buckets": (
        "T5ForConditionalGeneration",
        {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    ),
}
"""How each is called here -> its class and what is special in its config."""


def made(name: str, **more: Any) -> Any:
    """A model with weights that are large, and biases and norms that are not 0 and 1."""
    kind, fields = FAMILIES[name]
    sizes = _T5 if name.startswith("t5") else _SIZES
    cls: Any = getattr(transformers, kind)
    return shaken(cls(cls.config_class(**{**sizes, **fields, **more})))


def shaken(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if getattr(model, "final_logits_bias", None) is not None:
            model.final_logits_bias.normal_()
    return model.eval()


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """Rows of unequal lengths as ids [batch, position] and their padding."""
    longest = max(row.shape[1] for row in rows)
    ids = torch.full((len(rows), longest), 1)
    padding = torch.ones(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        n = row.shape[1]
        where = slice(0, n) if side == "right" else slice(longest - n, None)
        ids[i, where], padding[i, where] = row[0], False
    return ids, padding


def sources(name: str) -> list[Tensor]:
    """What each row's encoder reads, by itself."""
    if name == "whisper":
        return [torch.randn(1, 8, 40) for _ in SOURCE_LENGTHS]
    return [torch.randint(3, 31, (1, n)) for n in SOURCE_LENGTHS]


def targets() -> list[Tensor]:
    return [torch.randint(3, 31, (1, n)) for n in TARGET_LENGTHS]


def together(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor | None]:
    """The sources as one batch, and their padding: sound has none."""
    if rows[0].dtype.is_floating_point:
        return torch.cat(rows), None
    return padded(rows, side)


def theirs_alone(model: Any, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Encoder states and logits (of a base model the last hidden states) of one pair."""
    name = "input_features" if source.dtype.is_floating_point else "input_ids"
    out = model(**{name: source}, decoder_input_ids=target, use_cache=False)
    return out.encoder_last_hidden_state, getattr(out, "logits", None)


Folder = Callable[[Any], Path]
