"""Tiny decoders of transformers: models that read a text from left to right."""

from __future__ import annotations

from typing import Any

from tiny_fields import DECODER, GPT, WINDOWS, Family

_CAPS = {"query_pre_attn_scalar": 4, "attn_logit_softcapping": 0.5}
_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
_SMALL_EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
_LATENT = {
    "num_key_value_heads": 6,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "head_dim": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
"""Multi-head latent attention: keys of 10 channels, values of 5."""


def _plain(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}ForCausalLM", {**DECODER, **fields})


CAUSAL: dict[str, Family] = {
    "llama": _plain("Llama"),
    "llama-mha": _plain("Llama", num_key_value_heads=6),
    "llama-mqa": _plain("Llama", num_key_value_heads=1),
    "mistral-window": _plain("Mistral", sliding_window=3),
    "qwen2": _plain("Qwen2"),
    "qwen3": _plain("Qwen3"),
    "gemma2": _plain("Gemma2", **WINDOWS, **_CAPS),
    "gpt-oss": _plain("GptOss", **WINDOWS, **_EXPERTS),
    "phi3": _plain("Phi3"),
    "gpt-neox": _plain("GPTNeoX", rotary_pct=0.5, rope_parameters=None),
    "gpt2": Family("GPT2Config", "GPT2LMHeadModel", GPT),
    "opt": _plain("OPT", num_attention_heads=4, ffn_dim=32, word_embed_proj_dim=24),
    "apertus": _plain("Apertus"),
    "arcee": _plain("Arcee"),
    "biogpt": _plain("BioGpt", num_attention_heads=4),
    "bitnet": _plain("BitNet"),
    "codegen": Family("CodeGenConfig", "CodeGenForCausalLM", {**GPT, "rotary_dim": 4}),
    "cohere": _plain("Cohere"),
    "cohere2": _plain("Cohere2", **WINDOWS),
    "ctrl": Family("CTRLConfig", "CTRLLMHeadModel", {**GPT, "dff": 32}),
    "cwm": _plain("Cwm", **WINDOWS),
    "deepseek-v2": _plain("DeepseekV2", **_LATENT),
    "deepseek-v3": _plain("DeepseekV3", **_LATENT),
    "diffllama": _plain("DiffLlama"),
    "doge": _plain("Doge"),
    "ernie4_5": _plain("Ernie4_5"),
    "exaone4": _plain("Exaone4", **WINDOWS),
    "falcon-h1": _plain(
        "FalconH1",
        num_attention_heads=4,
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_state=8,
        mamba_chunk_size=4,
    ),
    "gemma": _plain("Gemma"),
    "gemma3": Family(
        "Gemma3TextConfig", "Gemma3ForCausalLM", {**DECODER, **WINDOWS, "query_pre_attn_scalar": 4}
    ),
    "glm": _plain("Glm"),
    "glm4": _plain("Glm4"),
    "glm4-moe": _plain("Glm4Moe", **_SMALL_EXPERTS, n_routed_experts=4),
    "gpt-bigcode": Family("GPTBigCodeConfig", "GPTBigCodeForCausalLM", GPT),
    "gptj": Family("GPTJConfig", "GPTJForCausalLM", {**GPT, "rotary_dim": 4}),
    "granite": _plain("Granite", attention_multiplier=0.5),
    "granite-moe": _plain("GraniteMoe", **_EXPERTS),
    "helium": _plain("Helium"),
    "hunyuan": _plain("HunYuanDenseV1"),
    "lfm2": _plain("Lfm2", layer_types=["conv", "full_attention"]),
    "minimax": _plain(
        "MiniMax", **_EXPERTS, layer_types=["linear_attention", "full_attention"], block_size=4
    ),
    "ministral": _plain("Ministral", **WINDOWS),
    "mixtral": _plain("Mixtral", **_EXPERTS),
    "modernbert-decoder": _plain("ModernBertDecoder", local_attention=6),
    "moshi": _plain("Moshi"),
    "nanochat": _plain("NanoChat"),
    "nemotron": _plain("Nemotron"),
    "olmo": _plain("Olmo"),
    "olmo2": _plain("Olmo2"),
    "olmo3": _plain("Olmo3", **WINDOWS),
    "olmoe": _plain("Olmoe", **_SMALL_EXPERTS),
    "persimmon": _plain("Persimmon"),
    "phi": _plain("Phi"),
    "phimoe": _plain("Phimoe", **_EXPERTS),
    "qwen2-moe": _plain("Qwen2Moe", **_SMALL_EXPERTS),
    "qwen3-moe": _plain("Qwen3Moe", **_SMALL_EXPERTS),
    "qwen3-next": _plain(
        "Qwen3Next",
        **_SMALL_EXPERTS,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=4,
        linear_value_head_dim=4,
    ),
    "seed-oss": _plain("SeedOss"),
    "smollm3": _plain("SmolLM3"),
    "stablelm": _plain("StableLm"),
    "starcoder2": _plain("Starcoder2", sliding_window=3),
    "vaultgemma": _plain("VaultGemma", **WINDOWS, **_CAPS),
    "llama4": Family(
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        {
            **DECODER,
            "num_local_experts": 2,
            "intermediate_size_mlp": 32,
            "attention_chunk_size": 4,
            "layer_types": ["chunked_attention", "full_attention"],
            "no_rope_layers": [1, 0],
        },
    ),
}
