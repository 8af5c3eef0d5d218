"""BART, and mBART, whose norms come first."""

from __future__ import annotations

from headwise.nn.families.like_bart import (
    ALLOWED,
    HARMLESS_TOO,
    KEPT,
    OUTPUT,
    SHARED,
    TEXT,
    TWINS,
    blocks,
    norm,
)
from headwise.nn.families.table import Family, as_is
from headwise.nn.models import EncoderDecoder

__all__ = ["BART", "MBART"]

_FIXED = {
    "norm": "layer",
    "positions": "learned",
    "position_offset": 2,
    "embedding_norm": True,
    "share_embeddings": True,
    "output_bias": True,
}
_WEIGHTS = {
    **SHARED,
    "encoder.embedding.positions.weight": as_is("encoder.embed_positions.weight"),
    "decoder.embedding.positions.weight": as_is("decoder.embed_positions.weight"),
    **norm("encoder.embedding.norm", "encoder.layernorm_embedding"),
    **norm("decoder.embedding.norm", "decoder.layernorm_embedding"),
    **blocks(),
    **OUTPUT,
}
_ALLOWED = {**ALLOWED, "normalize_embedding": (True,), "static_position_embeddings": (False,)}
_UNUSED = ("classification_head.*", "qa_outputs.*", "encoder.version", "decoder.version")

BART = Family(
    model_type="bart",
    model=EncoderDecoder,
    fields=TEXT,
    fixed={**_FIXED, "norm_position": "post", "final_norm": False},
    allowed={**_ALLOWED, "normalize_before": (False,)},
    harmless=HARMLESS_TOO,
    weights=_WEIGHTS,
    unused=_UNUSED,
    prefix="model.",
    bare="BartModel",
    written={"architectures": ["BartForConditionalGeneration"], **KEPT},
    twins=TWINS,
)

MBART = Family(
    model_type="mbart",
    model=EncoderDecoder,
    fields=TEXT,
    fixed={**_FIXED, "norm_position": "pre", "final_norm": True},
    allowed={**_ALLOWED, "normalize_before": (True,), "add_final_layer_norm": (True,)},
    harmless=HARMLESS_TOO,
    weights={
        **_WEIGHTS,
        **norm("encoder.final_norm", "encoder.layer_norm"),
        **norm("decoder.final_norm", "decoder.layer_norm"),
    },
    unused=_UNUSED,
    prefix="model.",
    bare="MBartModel",
    written={"architectures": ["MBartForConditionalGeneration"], **KEPT},
    twins=TWINS,
)
