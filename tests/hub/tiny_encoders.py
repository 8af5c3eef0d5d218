"""Tiny encoders and encoder-decoders of text."""

from __future__ import annotations

from typing import Any

from tiny_fields import BART, ENCODER, T5, Family


def _encoder(family: str, **fields: Any) -> Family:
    return Family(f"{family}Config", f"{family}Model", {**ENCODER, **fields})


def _bart(family: str, kind: str = "ForConditionalGeneration", **fields: Any) -> Family:
    return Family(
        f"{family}Config", family + kind, {**BART, "max_position_embeddings": 64, **fields}
    )


_DISTIL = {"dim": 24, "hidden_dim": 32, "n_layers": 2, "n_heads": 4}

ENCODERS: dict[str, Family] = {
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta", pad_token_id=1),
    "albert": _encoder("Albert", num_hidden_layers=3, embedding_size=16),
    "bert-generation": Family("BertGenerationConfig", "BertGenerationEncoder", ENCODER),
    "camembert": _encoder("Camembert", pad_token_id=1),
    "data2vec-text": _encoder("Data2VecText", pad_token_id=1),
    "distilbert": _encoder("DistilBert", **_DISTIL),
    "electra": _encoder("Electra", embedding_size=16),
    "ernie": _encoder("Ernie"),
    "esm": _encoder("Esm", position_embedding_type="rotary", pad_token_id=1, mask_token_id=3),
    "eurobert": _encoder("EuroBert"),
    "layoutlm": _encoder("LayoutLM"),
    "mobilebert": _encoder(
        "MobileBert",
        embedding_size=16,
        intra_bottleneck_size=24,
        true_hidden_size=24,
        num_feedforward_networks=1,
    ),
    "modernbert": _encoder(
        "ModernBert", local_attention=4, layer_types=["sliding_attention", "full_attention"]
    ),
    "nomic-bert": _encoder("NomicBert"),
    "roc-bert": _encoder("RoCBert", pronunciation_vocab_size=9, shape_vocab_size=9),
    "roberta-prelayernorm": _encoder("RobertaPreLayerNorm", pad_token_id=1),
    "xlm-roberta": _encoder("XLMRoberta", pad_token_id=1),
    "xlm-roberta-xl": _encoder("XLMRobertaXL", pad_token_id=1),
    "xmod": _encoder("Xmod", pad_token_id=1, languages=["en_XX"], default_language="en_XX"),
}
SEQ2SEQ: dict[str, Family] = {
    "t5": Family("T5Config", "T5ForConditionalGeneration", T5),
    "bart": _bart("Bart"),
    "blenderbot": _bart("Blenderbot"),
    "blenderbot-small": _bart("BlenderbotSmall"),
    "m2m100": _bart("M2M100"),
    "marian": _bart("Marian", "MTModel"),
    "mbart": _bart("MBart"),
    "mt5": Family("MT5Config", "MT5ForConditionalGeneration", T5),
    "nllb-moe": _bart("NllbMoe", num_experts=2, encoder_sparse_step=2, decoder_sparse_step=2),
    "pegasus": _bart("Pegasus"),
    "plbart": _bart("PLBart"),
    "umt5": Family("UMT5Config", "UMT5ForConditionalGeneration", T5),
    "switch": Family(
        "SwitchTransformersConfig",
        "SwitchTransformersForConditionalGeneration",
        {**T5, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_experts": 2},
    ),
}
