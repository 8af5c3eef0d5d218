"""Tiny random models of transformers, of every family and variant that our blocks run, and their twins in ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from safetensors.torch import load_file
from torch import Tensor

LIKE_LLAMA = {
    "vocab_size": 31,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
BERT = {key: LIKE_LLAMA[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers")} | {
    "num_attention_heads": 6,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "initializer_range": 0.3,
}
GPT2 = {"vocab_size": 31, "n_embd": 24, "n_layer": 2, "n_head": 6, "n_positions": 32}
GPT2 |= {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0}
_LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3 |= {"original_max_position_embeddings": 16, "rope_theta": 50.0}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
_YARN |= {"rope_theta": 50.0}
_WINDOWED = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}


def _make(kind: Any, config: Any, base: dict[str, Any], **fields: Any) -> Callable[[], Any]:
    return lambda: kind(config(**{**base, **fields}))


def _llama(**fields: Any) -> Callable[[], Any]:
    return _make(tf.LlamaForCausalLM, tf.LlamaConfig, LIKE_LLAMA, **fields)


def _qwen2(**fields: Any) -> Callable[[], Any]:
    return _make(tf.Qwen2ForCausalLM, tf.Qwen2Config, LIKE_LLAMA, **fields)


def _qwen3(**fields: Any) -> Callable[[], Any]:
    return _make(tf.Qwen3ForCausalLM, tf.Qwen3Config, LIKE_LLAMA, **{"head_dim": 8, **fields})


def _mistral(**fields: Any) -> Callable[[], Any]:
    return _make(tf.MistralForCausalLM, tf.MistralConfig, LIKE_LLAMA, **fields)


def _rope(**parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 50.0, **parameters}}


NEW: dict[str, Callable[[], Any]] = {
    "llama linear": _llama(**_rope(rope_type="linear", factor=2.5)),
    "llama llama3": _llama(rope_parameters=_LLAMA3),
    "llama yarn": _llama(rope_parameters=_YARN),
    "llama yarn further": _llama(
        rope_parameters={**_YARN, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.3}
    ),
    "llama yarn of less": _llama(rope_parameters={**_YARN, "factor": 0.5}),
    "llama yarn of one bound": _llama(
        rope_parameters={**_YARN, "beta_fast": 1.0, "truncate": False}
    ),
    "llama yarn to the end": _llama(
        rope_parameters={**_YARN, "beta_slow": 0.001, "rope_theta": 1.5}
    ),
    "llama yarn not truncated": _llama(head_dim=16, rope_parameters={**_YARN, "truncate": False}),
    "qwen2": _qwen2(),
    "qwen2 tied MHA": _qwen2(tie_word_embeddings=True, num_key_value_heads=6),
    "qwen2 window": _qwen2(**_WINDOWED),
    "qwen2 long window": _qwen2(**{**_WINDOWED, "sliding_window": 20}),
    "qwen2 yarn": _qwen2(rope_parameters=_YARN),
    "qwen3": _qwen3(),
    "qwen3 tied MQA": _qwen3(tie_word_embeddings=True, num_key_value_heads=1, head_dim=10),
    "qwen3 biases": _qwen3(attention_bias=True, rms_norm_eps=0.1),
    "qwen3 window": _qwen3(**_WINDOWED),
    "mistral": _mistral(sliding_window=None),
    "mistral window": _mistral(sliding_window=3),
    "mistral long window": _mistral(sliding_window=20, head_dim=10),
    "mistral tied llama3": _mistral(
        sliding_window=4, tie_word_embeddings=True, rope_parameters=_LLAMA3
    ),
}
"""The decoders whose parity is tested with these."""

DECODERS = {
    "llama": _llama(),
    "llama tied biases": _llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    **NEW,
    "gpt2": _make(tf.GPT2LMHeadModel, tf.GPT2Config, GPT2),
    "gpt2 untied relu": _make(
        tf.GPT2LMHeadModel,
        tf.GPT2Config,
        GPT2,
        tie_word_embeddings=False,
        activation_function="relu",
    ),
}
ENCODERS = {
    "bert": _make(tf.BertModel, tf.BertConfig, BERT),
    "bert head": _make(tf.BertForMaskedLM, tf.BertConfig, BERT),
}
ALL = {**DECODERS, **ENCODERS}


def checkpoint(name: str, folder: Path) -> tuple[Any, Path]:
    """A random model, of which no bias is 0 and no norm 1, and the folder it was saved in."""
    model = ALL[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model.eval(), folder


def edit(folder: Path, **fields: Any) -> Path:
    """The folder, its config.json with other fields."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return folder


def config(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return read


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def positions_of(padding: Tensor) -> Tensor:
    return ((~padding).long().cumsum(-1) - 1).clamp(min=0)


def outputs_of(model: Any, blocks: Any, call: Callable[[Any], Any]) -> tuple[Any, list[Tensor]]:
    """What a call gives, and what every block gave, in order."""
    seen: list[Tensor] = []
    handles = [
        block.register_forward_hook(
            lambda module, inputs, out: seen.append(out[0] if isinstance(out, tuple) else out)
        )
        for block in blocks
    ]
    try:
        return call(model), seen
    finally:
        for handle in handles:
            handle.remove()
