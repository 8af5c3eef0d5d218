"""Sound models of transformers, tiny and drawn wide: caches, experts, recurrences and encoders as shipped."""

from __future__ import annotations

from typing import Any

from faults_cached import RECURRENT_GEMMA, RWKV, tiny
from zoo_parts import Sound, sound

from headwise.check.telling.report import DIMENSIONS
from headwise.core import masks

EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 20,
}
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
BERT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
T5 = {
    "d_model": 24,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
    "initializer_factor": 2.0,
}
BART = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "init_std": 0.3,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}


def without(*names: str) -> dict[str, Any]:
    return {"dimensions": [name for name in DIMENSIONS if name not in names]}


WHOLE = without("chunked")
UNPADDED = without("padding", "unpadded", "chunked")
ALONE = without("padding", "unpadded", "chunked", "cached")
"""Recurrences that keep no state between chunks, leave the mask they take, or mix rows in a step."""


def family(name: str, head: str = "ForCausalLM", *, call: Any = None, **fields: Any) -> Sound:
    said = ", ".join([f"transformers' {name}", *(["windows"] if "layer_types" in fields else [])])
    return sound(said, lambda: tiny(name, head, **fields), cheap=False, **(call or {}))


SOUND = [
    family("Llama"),
    family("Mistral", sliding_window=4),
    family("GPT2", "LMHeadModel", n_layer=2, n_embd=24, n_head=3),
    family("GPTNeoX", rotary_pct=0.5, rope_parameters=None),
    family("Gemma2", **MIXED, query_pre_attn_scalar=8, attn_logit_softcapping=2.0),
    family("Bloom", n_layer=2, n_head=4, hidden_dropout=0.1),
    family("Qwen3"),
    family("Mixtral", **EXPERTS),
    family("Qwen3Moe", **EXPERTS),
    family("GptOss", **EXPERTS, **MIXED),
    family("Mamba", call=WHOLE, state_size=5, time_step_rank=3),
    family("Mamba2", state_size=8, head_dim=16, num_heads=4, n_groups=1, chunk_size=4),
    family("FalconMamba", call=WHOLE, state_size=5, time_step_rank=3),
    family("Rwkv", call=ALONE, **RWKV),
    family("RecurrentGemma", call=UNPADDED, **RECURRENT_GEMMA),
    family("Bert", "ForMaskedLM", call={"mask": masks.full(), "full": True}, **BERT),
    family("T5", "ForConditionalGeneration", **T5),
    family("Bart", "ForConditionalGeneration", **BART),
]
