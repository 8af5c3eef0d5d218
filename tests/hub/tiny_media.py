"""Tiny models that see or hear, alone or beside a text."""

from __future__ import annotations

from typing import Any

from tiny_fields import BART, DECODER, ENCODER, VISION, VOCAB, Family

_IMAGE: dict[str, Any] = {"pixel_values": (1, 3, 12, 12)}
_TEXT: dict[str, Any] = {"input_ids": [[7, 9, 5, 11, 2]]}
_TARGET: dict[str, Any] = {"decoder_input_ids": [[7, 9, 5, 11, 6]]}
_SOUND: dict[str, Any] = {"input_values": (1, 400)}
_WAVES: dict[str, Any] = {
    **ENCODER,
    "conv_dim": [16, 16],
    "conv_kernel": [10, 4],
    "conv_stride": [5, 4],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
}
_SPOKEN: dict[str, Any] = {
    **BART,
    "num_mel_bins": 8,
    "max_source_positions": 20,
    "max_target_positions": 30,
}
_TOWERS: dict[str, Any] = {
    "text_config": {**ENCODER, "max_position_embeddings": 16, "eos_token_id": 2},
    "vision_config": VISION,
    "projection_dim": 8,
}

_ROPE_3D = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 0]}


def _sees(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**VISION, **fields}, _IMAGE)


def _hears(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**_WAVES, **fields}, _SOUND)


def _pair(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**_TOWERS, **fields}, {**_TEXT, **_IMAGE})


MEDIA: dict[str, Family] = {
    "whisper": Family(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        {**_SPOKEN, "suppress_tokens": None, "begin_suppress_tokens": None},
        {"input_features": (1, 8, 40), **_TARGET},
    ),
    "speech-to-text": Family(
        "Speech2TextConfig",
        "Speech2TextForConditionalGeneration",
        {**_SPOKEN, "input_feat_per_channel": 8, "conv_channels": 16, "max_source_positions": 60},
        {"input_features": (1, 40, 8), **_TARGET},
    ),
    "moonshine": Family(
        "MoonshineConfig",
        "MoonshineForConditionalGeneration",
        {
            **DECODER,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "decoder_start_token_id": 1,
        },
        {"input_values": (1, 1600), **_TARGET},
    ),
    "wav2vec2": _hears("Wav2Vec2"),
    "hubert": _hears("Hubert"),
    "data2vec-audio": _hears("Data2VecAudio", conv_pos_kernel_size=3),
    "sew": _hears("SEW", squeeze_factor=2),
    "unispeech": _hears("UniSpeech"),
    "unispeech-sat": _hears("UniSpeechSat"),
    "ast": Family(
        "ASTConfig",
        "ASTModel",
        {**VISION, "num_mel_bins": 12, "max_length": 12, "frequency_stride": 4, "time_stride": 4},
        {"input_values": (1, 12, 12)},
    ),
    "vit": _sees("ViT"),
    "beit": _sees("Beit", use_relative_position_bias=True),
    "deit": _sees("DeiT"),
    "dinov2": _sees("Dinov2"),
    "dinov2-registers": _sees("Dinov2WithRegisters"),
    "dinov3": _sees("DINOv3ViT", num_attention_heads=3, num_register_tokens=2),
    "ijepa": _sees("IJepa"),
    "siglip-vision": _sees("SiglipVision", vision_use_head=False),
    "vit-mae": _sees("ViTMAE", mask_ratio=0.0)._replace(inputs={**_IMAGE, "noise": (1, 9)}),
    "vit-msn": _sees("ViTMSN"),
    "yolos": _sees("Yolos", image_size=[12, 12], num_detection_tokens=3),
    "videomae": Family(
        "VideoMAEConfig",
        "VideoMAEModel",
        {**VISION, "num_frames": 4, "tubelet_size": 2},
        {"pixel_values": (1, 4, 3, 12, 12)},
    ),
    "altclip": _pair("AltCLIP", text_config={**ENCODER, "project_dim": 24, "pad_token_id": 1}),
    "chinese-clip": _pair("ChineseCLIP"),
    "clip": _pair("CLIP"),
    "clipseg": _pair("CLIPSeg"),
    "metaclip2": _pair("MetaClip2"),
    "siglip": _pair("Siglip"),
    "llava": Family(
        "LlavaConfig",
        "LlavaForConditionalGeneration",
        {
            "text_config": {"model_type": "llama", **DECODER},
            "vision_config": {"model_type": "clip_vision_model", **VISION, "projection_dim": 8},
            "image_token_id": VOCAB - 1,
        },
        {"input_ids": [[7, *[VOCAB - 1] * 9, 5, 11]], **_IMAGE},
    ),
    "qwen2-vl": Family(
        "Qwen2VLConfig",
        "Qwen2VLForConditionalGeneration",
        {
            "text_config": {**DECODER, "rope_parameters": _ROPE_3D},
            "vision_config": {
                "embed_dim": 24,
                "hidden_size": 24,
                "depth": 2,
                "num_heads": 2,
                "patch_size": 4,
            },
            "image_token_id": VOCAB - 1,
            "vision_start_token_id": VOCAB - 2,
        },
        {
            "input_ids": [[7, VOCAB - 2, *[VOCAB - 1] * 4, 9, 5]],
            "mm_token_type_ids": [[0, 0, 1, 1, 1, 1, 0, 0]],
            "pixel_values": (16, 96),
            "image_grid_thw": [[1, 4, 4]],
        },
    ),
    "paligemma": Family(
        "PaliGemmaConfig",
        "PaliGemmaForConditionalGeneration",
        {
            "text_config": {"model_type": "gemma", **DECODER},
            "vision_config": {
                "model_type": "siglip_vision_model",
                **VISION,
                "vision_use_head": False,
            },
            "image_token_id": VOCAB - 1,
            "projection_dim": 24,
        },
        {
            "input_ids": [[7, *[VOCAB - 1] * 9, 5, 11]],
            "token_type_ids": [[0] * 10 + [1] * 2],
            **_IMAGE,
        },
    ),
}
