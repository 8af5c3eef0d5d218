"""What may influence what, as a model declares it: causal, or full in an encoder, and the windows of its config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from headwise.check.running.subject import Subject
from headwise.core import masks
from headwise.core.masks import Mask
from headwise.names import MaskError
from headwise.nn import Decoder, Encoder

__all__ = ["Declared", "declared_by", "declared_of", "layers_of", "stacked"]


@dataclass(frozen=True, eq=False)
class Declared:
    """What may influence what.

    Attributes:
        allowed: whose input may be in whose output.
        words: the same in words.
        layers: over which a mask reaches; None where it makes no difference.
        opens: after how many layers a path is open, -1 never; None where layers make no difference.
        windows: the mask of each layer as the config names it; empty where no layer has a window.
    """

    allowed: Bool[Tensor, "query key"]
    words: str
    layers: int | None = None
    opens: Int[Tensor, "query key"] | None = None
    windows: tuple[Mask, ...] = ()


def declared_of(subject: Subject, length: int) -> Declared:
    """As the model itself declares it: causal where nothing says otherwise."""
    if not _causal(subject):
        return Declared(torch.ones(length, length, dtype=torch.bool), "full")
    allowed = torch.ones(length, length).tril().bool()
    windows = _windows(subject)
    words = "causal, and the windows of its config" if windows else "causal"
    if not subject.signature.foreign and not isinstance(subject.module, Decoder):
        words = "causal, as nothing says otherwise"
    return Declared(allowed, words, windows=tuple(windows))


def declared_by(mask: Mask | Sequence[Mask], length: int, layers: int | None) -> Declared:
    """As the caller declares it.

    Raises:
        MaskError: a mask of another length, or one that reaches further over more layers while their number is
            not known.
    """
    listed = [mask] if isinstance(mask, Mask) else list(mask)
    words = ", then ".join(dict.fromkeys(map(repr, listed)))
    if len(listed) > 1 or layers is not None:
        count = layers or len(listed)
        turns = [listed[i % len(listed)] for i in range(count)] if listed else listed
        found = masks.reach(turns, length=length)
        return Declared(found.after()[0], words, count, found.first[0])
    one = masks.reach(listed, length=length).after()[0]
    two = masks.reach(listed * 2, length=length).after()[0]
    if bool((one != two).any()):
        raise MaskError(
            f"{words} reaches further over more layers, and how many there are is not known; pass layers="
        )
    return Declared(one, words)


def layers_of(subject: Subject) -> int | None:
    """How many layers the text passes, as the config says; None where it does not."""
    config = _config(subject)
    for name in (
        "num_decoder_layers",
        "decoder_layers",
        "num_hidden_layers",
        "num_layers",
        "n_layer",
    ):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def stacked(subject: Subject) -> int:
    """How many layers follow one another: as the config says, or as the longest list of modules holds."""
    parts = () if subject.module is None else subject.module.modules()
    return layers_of(subject) or max(
        (len(part) for part in parts if isinstance(part, nn.ModuleList | nn.Sequential)), default=1
    )


def _causal(subject: Subject) -> bool:
    module = subject.module
    if isinstance(module, Encoder):
        return False
    if not subject.signature.foreign or "source" in subject.takes:
        return True
    config = _config(subject)
    says = [getattr(config, name, None) for name in ("is_decoder", "causal")]
    kind = getattr(config, "model_type", "")
    if getattr(config, "attn_type", "") == "bi":
        return False
    if kind in _types(
        "MASKED_LM"
    ):  # a family of encoders, some of which become decoders by their config
        return True in says
    parts = () if module is None else module.modules()
    marks = [
        mark
        for mark in (getattr(part, "is_causal", None) for part in parts)
        if mark in (True, False)
    ]
    if True in says or True in marks:
        return True
    return kind in _types("CAUSAL_LM") and not (False in says and False in marks)


def _types(task: str) -> frozenset[str]:
    """The model types that transformers has a class of this task for."""
    from transformers.models.auto import modeling_auto

    return frozenset(getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES"))


def _windows(subject: Subject) -> list[Mask]:
    """The mask of each layer as the config names it; none where no layer has a window."""
    config = _config(subject)
    if isinstance(subject.module, Decoder):
        window = subject.module.config.window
        count = subject.module.config.num_layers
        return [masks.causal() & masks.window(window)] * count if window else []
    window, chunk = (
        getattr(config, "sliding_window", None),
        getattr(config, "attention_chunk_size", None),
    )
    kinds = getattr(config, "layer_types", None)
    layers = layers_of(subject)
    if not subject.signature.foreign or not layers or not (window or chunk):
        return []
    if not isinstance(kinds, list | tuple):
        alone = isinstance(window, int) and getattr(config, "use_sliding_window", True)
        kinds = ["sliding_attention" if alone else "full_attention"] * layers
    return [_mask(kind, window, chunk) for kind in kinds]


def _mask(kind: str, window: Any, chunk: Any) -> Mask:
    if kind == "sliding_attention" and isinstance(window, int):
        return masks.causal() & masks.window(window)
    if kind == "chunked_attention" and isinstance(chunk, int):
        return masks.causal() & masks.documents(torch.arange(4096) // chunk)
    return masks.causal()


def _config(subject: Subject) -> Any:
    config = getattr(subject.module, "config", None)
    inner = getattr(config, "get_text_config", None)
    return inner(decoder=True) if callable(inner) and subject.signature.foreign else config
