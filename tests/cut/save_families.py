"""Tiny random models of each family, their checkpoints, and what they write: shared by the tests of saving."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from safetensors.torch import load_file
from torch import Tensor

import headwise as hw

WORDS = {"vocab_size": 31, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
LLAMA = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 40, **WORDS}
LLAMA |= {"num_hidden_layers": 2, "num_key_value_heads": 2, "max_position_embeddings": 32}
BERT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "vocab_size": 31}
BERT |= {"intermediate_size": 40, "max_position_embeddings": 32}
GPT2 = {"n_embd": 24, "n_layer": 2, "n_head": 6, "n_positions": 32, **WORDS}
BART = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 6}
BART |= {"decoder_attention_heads": 6, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, **WORDS}
BART |= {"decoder_start_token_id": 0}
ALBERT = {**BERT, "embedding_size": 16, "num_hidden_layers": 3}
T5 = {"d_model": 24, "d_kv": 6, "num_heads": 4, "d_ff": 40, "num_layers": 2, **WORDS}
T5 |= {"decoder_start_token_id": 0}
OPT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "ffn_dim": 40, **WORDS}
OPT |= {"word_embed_proj_dim": 24}
WHISPER = {**BART, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 32}
VIT = {**BERT, "image_size": 8, "patch_size": 4, "num_channels": 3}

Make = Callable[[], Any]

OURS: dict[str, Make] = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA)),
    "llama mqa": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**{**LLAMA, "num_key_value_heads": 1})),
    "llama mha": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**{**LLAMA, "num_key_value_heads": 6})),
    "llama tied": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
    "llama base": lambda: tf.LlamaModel(tf.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
    "llama biases": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True)
    ),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**LLAMA, sliding_window=None)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**LLAMA)),
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**LLAMA, head_dim=8)),
    "gpt2": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)),
    "gpt2 base": lambda: tf.GPT2Model(tf.GPT2Config(**GPT2)),
    "gpt2 untied": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2, tie_word_embeddings=False)),
    "bert": lambda: tf.BertModel(tf.BertConfig(**BERT)),
    "bert with a head": lambda: tf.BertForMaskedLM(tf.BertConfig(**BERT)),
}
"""Families that run in our blocks."""

THEIRS: dict[str, Make] = {
    "neox": lambda: tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**LLAMA)),
    "phi3": lambda: tf.Phi3ForCausalLM(tf.Phi3Config(**LLAMA)),
    "opt": lambda: tf.OPTForCausalLM(tf.OPTConfig(**OPT)),
    "t5": lambda: tf.T5ForConditionalGeneration(tf.T5Config(**T5)),
    "bart": lambda: tf.BartForConditionalGeneration(tf.BartConfig(**BART)),
    "whisper": lambda: tf.WhisperForConditionalGeneration(tf.WhisperConfig(**WHISPER)),
    "vit": lambda: tf.ViTModel(tf.ViTConfig(**VIT)),
    "albert": lambda: tf.AlbertModel(tf.AlbertConfig(**ALBERT)),
}
"""Families that run in transformers."""


def checkpoint(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """A checkpoint of a random model, of which no bias is 0 and no norm 1."""
    torch.manual_seed(3)
    model = {**OURS, **THEIRS}[name]()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    model.to(dtype).save_pretrained(folder)
    return folder


def weights(folder: Path) -> dict[str, Tensor]:
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def config(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return read


def main_output(made: Any) -> Tensor:
    """The logits, or the hidden states of a model without."""
    if isinstance(made, Tensor):
        return made
    found = getattr(made, "logits", None)
    return made.last_hidden_state if found is None else found


def outputs(model: hw.Model, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a model answers, and what it writes with a cache, the likeliest token each time."""
    with torch.no_grad():
        answer = {"answer": main_output(model.outputs(inputs)).contiguous()}
        written = _written(model, inputs)
    return answer if written is None else {**answer, "written": written}


def _written(model: hw.Model, inputs: dict[str, Tensor]) -> Tensor | None:
    module = model.module
    if isinstance(module, hw.nn.Decoder):
        ids, cache = inputs["input_ids"], module.new_cache()
        for _ in range(8):
            logits = module(ids[:, cache.length :], cache=cache)[:, -1:]
            logits[..., WORDS["eos_token_id"]] = -torch.inf
            ids = torch.cat([ids, logits.argmax(-1)], 1)
        return ids
    if model.foreign and module.can_generate():
        given = {k: v for k, v in inputs.items() if not k.startswith("decoder_")}
        how = {"max_new_tokens": 8, "do_sample": False, "num_beams": 1, "min_new_tokens": 8}
        made: Tensor = module.generate(**given, **how)
        return made
    return None
