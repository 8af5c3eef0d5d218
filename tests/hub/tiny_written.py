"""Tiny models whose classes write attention out by hand, without transformers' attention interface."""

from __future__ import annotations

from typing import Any

from tiny_fields import BART, ENCODER, GPT, IDS, VISION, VOCAB, Family

_IMAGE: dict[str, Any] = {"pixel_values": (1, 3, 12, 12)}


def _plain(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**ENCODER, **fields})


def _xlm(family: str, **fields: Any) -> Family:
    shape = {"n_words": VOCAB, "vocab_size": VOCAB, "emb_dim": 24, "n_layers": 2, "n_heads": 4}
    return Family(f"{family}Config", f"{family}Model", {**shape, "pad_index": 0, **fields})


WRITTEN_CAUSAL: dict[str, Family] = {
    "bloom": Family(
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": 24, "n_layer": 2, "n_head": 4},
    ),
    "falcon": _plain("Falcon"),
    "falcon-groups": _plain("Falcon", new_decoder_architecture=True, num_kv_heads=2),
    "gpt": Family("OpenAIGPTConfig", "OpenAIGPTModel", GPT),
    "gpt-neo": Family(
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        {
            "vocab_size": VOCAB,
            "hidden_size": 24,
            "num_layers": 2,
            "num_heads": 4,
            "window_size": 3,
            "attention_types": [[["global", "local"], 1]],
            **IDS,
        },
    ),
    "gpt-neox-japanese": Family(
        "GPTNeoXJapaneseConfig", "GPTNeoXJapaneseModel", {**ENCODER, **IDS}
    ),
    "imagegpt": Family("ImageGPTConfig", "ImageGPTModel", GPT),
    "mpt": Family(
        "MptConfig",
        "MptForCausalLM",
        {"vocab_size": VOCAB, "d_model": 24, "n_layers": 2, "n_heads": 4},
    ),
    "xglm": Family(
        "XGLMConfig",
        "XGLMForCausalLM",
        {"vocab_size": VOCAB, "d_model": 24, "ffn_dim": 32, "num_layers": 2, "attention_heads": 4},
    ),
}
WRITTEN_ENCODERS: dict[str, Family] = {
    "big-bird": _plain("BigBird", attention_type="original_full"),
    "deberta": _plain("Deberta"),
    "deberta-relative": _plain(
        "Deberta", relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8
    ),
    "deberta-v2": _plain(
        "DebertaV2",
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=4,
        share_att_key=True,
    ),
    "flaubert": _xlm("Flaubert"),
    "ibert": _plain("IBert", pad_token_id=1),
    "luke": _plain("Luke", entity_vocab_size=10, use_entity_aware_attention=False),
    "megatron-bert": _plain("MegatronBert"),
    "mpnet": _plain("MPNet", pad_token_id=1),
    "rembert": _plain("RemBert", input_embedding_size=16, output_embedding_size=16),
    "roformer": _plain("RoFormer", embedding_size=24),
    "tapas": _plain("Tapas"),
    "visual-bert": _plain("VisualBert", visual_embedding_dim=8),
    "xlm": _xlm("XLM"),
    "xlnet": Family(
        "XLNetConfig",
        "XLNetModel",
        {"vocab_size": VOCAB, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 16},
    ),
}
WRITTEN_SEQ2SEQ: dict[str, Family] = {
    "mvp": Family("MvpConfig", "MvpForConditionalGeneration", BART),
}
WRITTEN_MEDIA: dict[str, Family] = {
    "blip-vision": Family("BlipVisionConfig", "BlipVisionModel", VISION, _IMAGE),
    "flava-image": Family("FlavaImageConfig", "FlavaImageModel", VISION, _IMAGE),
    "timesformer": Family(
        "TimesformerConfig",
        "TimesformerModel",
        {**VISION, "num_frames": 2, "attention_type": "joint_space_time"},
        {"pixel_values": (1, 2, 3, 12, 12)},
    ),
}
WRITTEN: dict[str, Family] = {
    **WRITTEN_CAUSAL,
    **WRITTEN_ENCODERS,
    **WRITTEN_SEQ2SEQ,
    **WRITTEN_MEDIA,
}
