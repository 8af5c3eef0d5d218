"""Why a class is not clean in a dimension, as read in its code; docs/findings.md says more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BOTH_WAYS = "by design: "
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
    _BOTH_WAYS + "it knows padding by the id 0 on the left, and takes no notice of attention_mask"
)
_CPM_STEP = (
    _BOTH_WAYS
    + "a step takes the whole text and cuts off what the cache holds, where others take what is new"
)
_COMPRESSED = (
    "bug: its compressors pool padding with the text (huggingface/transformers#45938, open)"
)
_MAMBA = {
    "cached": _BOTH_WAYS + "a step takes no mask; one of the whole text multiplies the token",
    "chunked": "bug: a piece of several tokens is scanned from a state of zeros (huggingface/transformers#47087)",
}

WHY: Mapping[str, Mapping[str, str]] = {
    "bamba": {
        "cached": "bug: BambaModel.forward counts positions from 0 whatever the cache holds",
        "chunked": "the same",
    },
    "blt": {
        "padding": "bug: the attention mask reaches neither the patcher nor the hashes nor the global transformer",
    },
    "cpmant": {
        "future": _BOTH_WAYS + "all it reads is context, which everything sees",
        "padding": _BOTH_WAYS
        + "it is told of padding by the id 0 on the left, and not by attention_mask",
    },
    "falcon": dict.fromkeys(
        ("future", "weights"),
        "bug: with output_attentions under sdpa the boolean mask is added to the scores as 0 and 1",
    ),
    "falcon_mamba": _MAMBA,
    "git": dict.fromkeys(
        ("cached", "chunked"),
        "bug: a cached step takes it that the cache starts with a picture, and moves the mask by as much",
    ),
    "mamba": _MAMBA,
    "prophetnet": {
        "future": "bug: the position scores of the predicting streams are read from other positions",
    },
    "reformer": {
        "future": _BOTH_WAYS
        + "later tokens move the borders of the chunks that LSH attention cuts",
    },
    "xlnet": {
        "future": _BOTH_WAYS + 'attn_type="bi" sees both ways without a perm_mask',
    },
}


WHY_THEN: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "5.17.0": {
        **{
            kind: {"future": _KNOWN_MASK}
            for kind in ("roformer", "big_bird", "rembert", "megatron-bert")
        },
        "doge": {"future": _KNOWN_DOGE},
    },
}

UNEXPLAINED = "not explained yet"


def explained(row: Mapping[str, Any], dimension: str, release: str) -> str:
    """The reason that is on record for a release, UNEXPLAINED where there is none."""
    then = WHY_THEN.get(release, {}).get(row["type"], {})
    return {**WHY.get(row["type"], {}), **then}.get(dimension, UNEXPLAINED)
