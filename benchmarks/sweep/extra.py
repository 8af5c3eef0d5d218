"""Fields that no name tells, by type: those that hang together, and those that bring a kind of layer in.

UNBUILT are the types that no audit of a text can run, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fields import WIDTH, WINDOW

_SLIDING: Mapping[str, Any] = {"layer_types": ["sliding_attention", "full_attention"]}
_OPTIONAL_WINDOW: Mapping[str, Any] = {
    **_SLIDING,
    "use_sliding_window": True,
    "sliding_window": WINDOW,
}
_MAMBA: Mapping[str, Any] = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_chunk_size": 4,
}
_INDEXER: Mapping[str, Any] = {
    "eos_token_id": 2,
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 4,
    "indexer_compress_ratio": 2,
    "ple_layer_ids": [1],
    "ple_embed_dim": 32,
    "ngram_vocab_size_base": 50,
    "split_ngram_parts": 1,
    "heads_per_ngram": 2,
}
_SLIDING_LATENT: Mapping[str, Any] = {
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_q_lora_rank": 8,
    "swa_kv_lora_rank": 8,
    "swa_head_dim": 12,
    "swa_qk_nope_head_dim": 8,
    "swa_v_head_dim": 8,
}
_SHARED: Mapping[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
    "num_kv_shared_layers": 2,
}

EXTRA: Mapping[str, Mapping[str, Any]] = {
    "bamba": {**_MAMBA, "attn_layer_indices": [1]},
    "blt": {"use_cache": False},
    "cohere2_moe": {
        "layer_types": ["sliding_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse"],
    },
    "cohere_compass_text": {
        **_SLIDING,
        "rope_parameters": {
            k: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
            for k in ("sliding_attention", "full_attention")
        },
    },
    "deepseek_v4": {
        "layer_types": [
            "sliding_attention",
            "heavily_compressed_attention",
            "compressed_sparse_attention",
        ],
        "mlp_layer_types": ["moe", "hash_moe", "moe"],
        "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        "ffn_config": {"moe_top_k": 2, "hidden_size": WIDTH},
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {
        "num_hidden_layers": 4,
        "n_input_layers": 1,
        "n_output_layers": 1,
        "layer_types": [
            "sliding_attention",
            "full_attention",
            "sliding_attention",
            "full_attention",
        ],
    },
    "dots1": {**_SLIDING, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dots3_note": _SLIDING_LATENT,
    "dots3_note_text": _SLIDING_LATENT,
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 64},
    "gemma3n": {"text_config": _SHARED},
    "gemma3n_text": _SHARED,
    "gemma4_assistant": {
        "text_config": {
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 2,
        }
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {**_MAMBA, "layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "inkling_text": {"mlp_layer_types": ["dense", "sparse"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "laguna": {**_SLIDING, "num_attention_heads_per_layer": [4, 4]},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8},
    "mellum": {**_SLIDING, "mlp_layer_types": ["dense", "sparse"]},
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse"]},
    "ministral": {"layer_types": ["sliding_attention", "full_attention"], "head_dim": 8},
    "hrm_text": {"num_layers_per_stack": None},
    "moshi": {"audio_encoder_config": {"codebook_size": 64}},
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    "nemotron": {"num_key_value_heads": 2},
    "qwen2": _OPTIONAL_WINDOW,
    "qwen2_moe": _OPTIONAL_WINDOW,
    "qwen3": _OPTIONAL_WINDOW,
    "qwen4_exp": _INDEXER,
    "qwen4_exp_text": _INDEXER,
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [16, 16],
        "attn_layers": ["local", "lsh"],
        "num_buckets": 4,
    },
    "smollm3": _OPTIONAL_WINDOW,
    "xmod": {"default_language": "en_XX"},
    "xlm": {"causal": True},
    "xlstm": {"hidden_size": 64, "embedding_dim": 64, "num_blocks": 2, "qk_dim_factor": 1.0},
    "zamba": {
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "attention_head_dim": 16,
        "attention_hidden_size": 64,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "n_mamba_heads": 8,
        "mamba_d_state": 8,
    },
    "zaya": {"layer_types": ["hybrid", "hybrid_sliding"], "sliding_window": WINDOW},
}

_OF_A_TARGET = (
    "drafts for another model: its forward takes that model's hidden states and keys and values "
    "(inputs_embeds, shared_kv_states), and no text"
)
UNBUILT: Mapping[str, str] = {
    "gemma3n": "its picture encoder is a model of timm, which is not installed; its text part is gemma3n_text",
    "gemma4_assistant": _OF_A_TARGET,
    "gemma4_unified_assistant": _OF_A_TARGET,
}
"""Types that are left out, and why."""
