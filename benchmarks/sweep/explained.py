"""Why a class is not clean in a dimension, as read in its code; docs/en/findings.md says more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DESIGN = "by design: "
_KNOWN_MASK = (
    "bug, mended since: it builds a bidirectional mask whether it is a decoder or not "
    "(huggingface/transformers#48745)"
)
_KNOWN_DOGE = (
    "bug, mended since: under sdpa the causal mask is left out, and its own mask holds no causality "
    "(huggingface/transformers#48748)"
)

_BLT_PADDING = (
    "bug: the attention mask reaches neither the patcher nor the hashes nor the global transformer"
)
_BLT_CACHE = (
    "bug: BltConfig has no num_hidden_layers, so no cache is built (huggingface/transformers#47916)"
)
_CPM_PADDING = (
    _DESIGN + "it knows padding by the id 0 on the left, and takes no notice of attention_mask"
)
_WHOLE = (
    _DESIGN
    + "a step takes the whole text and cuts off what the cache holds, where others take what is new"
)
_COMPRESSED = (
    "bug: its compressors pool padding with the text (huggingface/transformers#45938, open)"
)
_FROM_ZERO = "bug: a piece of several tokens is scanned from a state of zeros (huggingface/transformers#47087)"
_NO_MASK = "bug: its recurrent blocks take no notice of the mask (huggingface/transformers#31201)"
_REFORMER_POSITIONS = "bug: given position ids it cannot pad them as it pads a text to its chunks"
_REFORMER_LENGTH = _DESIGN + "in train mode it takes only texts as long as axial_pos_shape says"
_REFORMER_CACHE = (
    "bug: a cached step after more than a chunk raises in _hash_vectors, in generate too"
)
_XLM_PADDING = "bug: where it is causal the mask of padding is not joined to the causal one"
_RWKV_MASK = _DESIGN + "it has no mask: it says that attention_mask is unused"
_OTHER_POSITIONS = (
    "bug: the position scores of the predicting streams are read from other positions, which the length "
    "decides; and a cached step takes no mask"
)
_MAMBA = {"chunked": _FROM_ZERO}
_TEMPERATURE = "bug: the temperature of queries counts padding as positions"
_TIME_STEP = (
    "bug: a cached step leaves out the floor under time steps (see huggingface/transformers#48989)"
)

WHY: Mapping[str, Mapping[str, str]] = {
    "bamba": {
        "cached": "bug: BambaModel.forward counts positions from 0 whatever the cache holds",
        "chunked": "the same",
    },
    "blt": {
        "padding": _BLT_PADDING,
        "cached": _BLT_CACHE,
        "chunked": _BLT_CACHE,
        "unpadded": _BLT_PADDING,
        "weights": _BLT_PADDING + "; at padding eager attention and sdpa differ, as they may",
    },
    "cpmant": {
        "future": _DESIGN + "all it reads is context, which everything sees",
        "padding": _CPM_PADDING,
        "cached": _WHOLE,
        "chunked": _WHOLE,
        "unpadded": _CPM_PADDING,
    },
    "deepseek_v4": dict.fromkeys(("padding", "cached", "unpadded"), _COMPRESSED),
    "falcon": dict.fromkeys(
        ("future", "weights"),
        "bug: with output_attentions under sdpa the boolean mask is added to the scores as 0 and 1",
    ),
    "falcon_mamba": _MAMBA,
    "git": dict.fromkeys(
        ("cached", "chunked"),
        "bug: a cached step takes it that the cache starts with a picture, and moves the mask by as much",
    ),
    "jamba": {"chunked": _FROM_ZERO},
    "llama4": {"unpadded": _TEMPERATURE},
    "llama4_text": {"unpadded": _TEMPERATURE},
    "mamba": _MAMBA,
    "minimax_m3_vl_text": dict.fromkeys(
        ("padding", "cached", "chunked", "unpadded", "weights"),
        "a limit that its code states: blocks of keys are counted from the start of the row, padding or not",
    ),
    "moshi": dict.fromkeys(
        ("future", "cached", "chunked"),
        "bug: its cache keeps sliding_window positions, and its mask knows of no window",
    ),
    "nemotron_h": {"cached": _TIME_STEP},
    "phimoe": {"training": _DESIGN + "in train mode its router draws the experts at random"},
    "prophetnet": {
        **dict.fromkeys(("future", "cached", "unpadded"), _OTHER_POSITIONS),
        "chunked": _DESIGN + "it says that a cached step takes one token",
    },
    "recurrent_gemma": {
        "padding": _NO_MASK,
        "chunked": _FROM_ZERO,
        "unpadded": _NO_MASK,
    },
    "reformer": {
        "future": _DESIGN + "later tokens move the borders of the chunks that LSH attention cuts",
        **dict.fromkeys(("padding", "documents", "unpadded", "weights"), _REFORMER_POSITIONS),
        **dict.fromkeys(("rows", "training"), _REFORMER_LENGTH),
        **dict.fromkeys(("cached", "chunked"), _REFORMER_CACHE),
    },
    "rwkv": {
        "padding": _RWKV_MASK,
        "cached": "bug: a step of a batch mixes its rows",
        "unpadded": _RWKV_MASK,
    },
    "zamba": {"chunked": _FROM_ZERO},
    "zamba2": {"cached": _TIME_STEP},
    "xlm": {"cached": _WHOLE, "chunked": _WHOLE, "unpadded": _XLM_PADDING},
    "xlstm": dict.fromkeys(("padding", "unpadded"), _DESIGN + "its forward takes no mask"),
}


WHY_THEN: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "5.17.0": {
        **{
            kind: {"future": _KNOWN_MASK}
            for kind in ("roformer", "big_bird", "rembert", "megatron-bert")
        },
        "doge": {"future": _KNOWN_DOGE},
        "moshi": {
            "future": "bug, mended since: without an attention mask it builds no causal one, which eager "
            "attention then lacks; and its mask knows of no window, as it does still"
        },
    },
}

UNEXPLAINED = "not explained yet"


def explained(row: Mapping[str, Any], dimension: str, release: str) -> str:
    """The reason that is on record for a release, UNEXPLAINED where there is none."""
    then = WHY_THEN.get(release, {}).get(row["type"], {})
    return {**WHY.get(row["type"], {}), **then}.get(dimension, UNEXPLAINED)
