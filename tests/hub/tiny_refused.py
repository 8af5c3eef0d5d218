"""Tiny models whose classes compute attention by themselves: they cannot be looked into, and it is said."""

from __future__ import annotations

from typing import Any

from tiny_fields import BART, ENCODER, GPT, VOCAB, Family


def _plain(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**ENCODER, **fields})


REFUSED: dict[str, Family] = {
    "bloom": Family(
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": 24, "n_layer": 2, "n_head": 4},
    ),
    "falcon": _plain("Falcon"),
    "mpnet": _plain("MPNet"),
    "xlnet": Family(
        "XLNetConfig",
        "XLNetModel",
        {"vocab_size": VOCAB, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16},
    ),
    "deberta": _plain("Deberta"),
    "deberta-v2": _plain("DebertaV2"),
    "gpt": Family("OpenAIGPTConfig", "OpenAIGPTModel", GPT),
    "gpt-neo": Family(
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        {
            "vocab_size": VOCAB,
            "hidden_size": 24,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "gpt-neox-japanese": _plain("GPTNeoXJapanese"),
    "led": Family("LEDConfig", "LEDModel", {**BART, "attention_window": 4}),
    "longformer": _plain("Longformer", attention_window=4),
    "megatron-bert": _plain("MegatronBert"),
    "mvp": Family("MvpConfig", "MvpForConditionalGeneration", BART),
    "mpt": Family(
        "MptConfig",
        "MptForCausalLM",
        {"vocab_size": VOCAB, "d_model": 24, "n_layers": 2, "n_heads": 4},
    ),
    "prophetnet": Family(
        "ProphetNetConfig",
        "ProphetNetModel",
        {
            "vocab_size": VOCAB,
            "hidden_size": 24,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 16,
            "decoder_ffn_dim": 16,
        },
    ),
    "rembert": _plain("RemBert", input_embedding_size=16, output_embedding_size=16),
    "roformer": _plain("RoFormer", embedding_size=24),
    "xglm": Family(
        "XGLMConfig",
        "XGLMForCausalLM",
        {"vocab_size": VOCAB, "d_model": 24, "ffn_dim": 32, "num_layers": 2, "attention_heads": 4},
    ),
    "xlm": Family(
        "XLMConfig",
        "XLMModel",
        {"n_words": VOCAB, "emb_dim": 24, "n_layers": 2, "n_heads": 4},
    ),
}
