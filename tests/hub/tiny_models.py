"""Tiny random models of transformers, by name: a table of config class, model class and fields."""

from __future__ import annotations

from typing import Any

import torch
import transformers

VOCAB = 40

_DECODER = {
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
_ENCODER = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_GPT2 = {"vocab_size": VOCAB, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64}
_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
_BART = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_WINDOWS = {"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}

CAUSAL = {
    "llama": ("Llama", "ForCausalLM", {**_DECODER}),
    "llama-mha": ("Llama", "ForCausalLM", {**_DECODER, "num_key_value_heads": 6}),
    "llama-mqa": ("Llama", "ForCausalLM", {**_DECODER, "num_key_value_heads": 1}),
    "mistral-window": ("Mistral", "ForCausalLM", {**_DECODER, "sliding_window": 3}),
    "qwen2": ("Qwen2", "ForCausalLM", {**_DECODER}),
    "qwen3": ("Qwen3", "ForCausalLM", {**_DECODER}),
    "gemma2": (
        "Gemma2",
        "ForCausalLM",
        {**_DECODER, **_WINDOWS, "query_pre_attn_scalar": 4, "attn_logit_softcapping": 0.5},
    ),
    "gpt-oss": (
        "GptOss",
        "ForCausalLM",
        {**_DECODER, **_WINDOWS, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "phi3": ("Phi3", "ForCausalLM", {**_DECODER}),
    "gpt-neox": (
        "GPTNeoX",
        "ForCausalLM",
        {**_DECODER, "rotary_pct": 0.5, "rope_parameters": None},
    ),
    "gpt2": ("GPT2", "LMHeadModel", {**_GPT2, **_ENDS}),
    "opt": (
        "OPT",
        "ForCausalLM",
        {
            **_DECODER,
            "num_attention_heads": 4,
            "ffn_dim": 32,
            "word_embed_proj_dim": 24,
            "pad_token_id": 0,
        },
    ),
}
ENCODERS = {
    "bert": ("Bert", "Model", {**_ENCODER}),
    "roberta": ("Roberta", "Model", {**_ENCODER, "pad_token_id": 1}),
    "albert": ("Albert", "Model", {**_ENCODER, "num_hidden_layers": 3, "embedding_size": 16}),
}
SEQ2SEQ = {
    "t5": (
        "T5",
        "ForConditionalGeneration",
        {
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
        },
    ),
    "bart": ("Bart", "ForConditionalGeneration", {**_BART, "max_position_embeddings": 64}),
}
OTHERS = {
    "whisper": (
        "Whisper",
        "ForConditionalGeneration",
        {
            **_BART,
            "num_mel_bins": 8,
            "max_source_positions": 20,
            "max_target_positions": 30,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
    ),
    "vit": (
        "ViT",
        "Model",
        {
            "hidden_size": 24,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 12,
            "patch_size": 4,
        },
    ),
}
ALL = {**CAUSAL, **ENCODERS, **SEQ2SEQ, **OTHERS}


def build(name: str, attention: str | None = None, **fields: Any) -> Any:
    """The model of this name, the same weights for every attention implementation, in eval mode.

    Weights are spread wide, so that heads look somewhere and do not all average.
    """
    family, kind, known = ALL[name]
    config = getattr(transformers, f"{family}Config")(**{**known, **fields})
    return seeded(getattr(transformers, family + kind), config, attention)


def seeded(cls: Any, config: Any, attention: str | None = None) -> Any:
    """A model of this config, its weights drawn from one seed."""
    torch.manual_seed(0)
    model = cls._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1 or "sinks" in parameter_name:
                parameter.normal_(0, 0.35)
    return model


def eager_weights(model: Any, inputs: dict[str, Any]) -> dict[str, list[torch.Tensor]]:
    """transformers' own weights by stream, under eager attention: [batch, head, query, key] per layer."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    if "encoder_attentions" in out:
        found = {
            "encoder": out.encoder_attentions,
            "decoder": out.decoder_attentions,
            "cross": out.cross_attentions,
        }
    else:
        found = {"": out.attentions}
    return {stream: list(layers) for stream, layers in found.items()}


def ids_of(*lengths: int, seed: int = 1) -> list[torch.Tensor]:
    """Random ids, one row per length; none of the special ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCAB, (n,), generator=generator) for n in lengths]


def padded(rows: list[torch.Tensor], side: str, pad: int = 0) -> dict[str, torch.Tensor]:
    """A batch of the rows with padding on this side."""
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(longest - len(row), None)
        ids[i, where], mask[i, where] = row, 1
    return {"input_ids": ids, "attention_mask": mask}
