"""How a module is called that is not of transformers: under which names its forward takes what is looked at.

The first argument of forward is what it reads, ids [batch, position] or, for torch's own modules, vectors
[batch, position, d_model] ([position, batch, d_model] where batch_first is False, [position, d_model] alone). In an
encoder-decoder the second is what its decoder reads. Padding is given under the names below that forward takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.names import ModelError
from headwise.nn import EncoderDecoder
from headwise.nn.modes import uncompiled

PADDING = ("key_padding_mask", "src_key_padding_mask", "padding_mask", "source_padding_mask")
"""Names under which a forward takes the padding of what it reads: True = padding, as torch has it."""

TARGET_PADDING = ("tgt_key_padding_mask", "target_padding_mask")
"""The same of what a decoder reads."""

_MEMORY_PADDING = ("memory_key_padding_mask",)

_OF_VECTORS = ("torch.nn.modules.transformer", "torch.nn.modules.activation")
"""Where torch's modules are that read vectors."""


def takes(module: nn.Module) -> list[str]:
    """The names of the arguments that forward takes, in order."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(uncompiled(module).forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in kinds]


def reads_vectors(module: nn.Module) -> bool:
    """Whether it is one of torch's own modules, which read vectors and no ids."""
    return type(uncompiled(module)).__module__ in _OF_VECTORS


def needs(module: nn.Module) -> list[str]:
    """The names of the arguments that forward cannot do without."""
    parameters = inspect.signature(uncompiled(module).forward).parameters
    return [name for name in takes(module) if parameters[name].default is inspect.Parameter.empty]


def arguments_for(module: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs named as transformers does, or as forward itself does, under the names forward takes.

    Raises:
        ModelError: the forward takes no ids, or cannot be told what is padding.
    """
    names = takes(module)
    if not names:
        raise ModelError(f"{type(module).__name__}.forward takes no token ids")
    read = inputs.get("input_ids", inputs.get("input_features"))
    target = inputs.get("decoder_input_ids")
    hidden = _hidden(inputs.get("attention_mask"))
    given: dict[str, Any] = dict.fromkeys((*PADDING, *_MEMORY_PADDING), hidden)
    given |= dict.fromkeys(TARGET_PADDING, _hidden(inputs.get("decoder_attention_mask")))
    given |= {"token_types": inputs.get("token_type_ids"), names[0]: read}
    if target is not None and len(names) > 1:
        given[names[1]] = target
    given = {name: value for name, value in given.items() if value is not None} | dict(inputs)
    given = {name: value for name, value in given.items() if name in names}
    _check_given(module, given, inputs)
    if hidden is not None and not _can_hide(names) and bool(hidden.any()):
        raise ModelError(
            f"{type(module).__name__}.forward takes no key_padding_mask, so it cannot read texts of "
            "unequal lengths at once; look at one text at a time"
        )
    return given


def _check_given(module: nn.Module, given: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """All that forward needs is there, and vectors where it reads vectors."""
    own = uncompiled(module)
    needed = [
        name
        for name, parameter in inspect.signature(own.forward).parameters.items()
        if name in takes(module)[:1] or parameter.default is parameter.empty
    ]
    missing = [name for name in needed if name in takes(module) and given.get(name) is None]
    if missing:
        raise ModelError(
            f"{type(own).__name__}.forward needs {', '.join(missing)}, "
            f"and the batch holds {', '.join(inputs)}"
        )
    x = given[needed[0]]
    if type(own).__module__ not in _OF_VECTORS or not isinstance(x, Tensor):
        return
    if not x.is_floating_point() or x.dim() not in (2, 3):
        raise ModelError(
            f"{type(own).__name__} reads vectors [batch, position, d_model], came {list(x.shape)} of "
            f"{x.dtype}; wrap it in a module that embeds the ids, or pass its {needed[0]}"
        )


def takes_target(module: nn.Module, streams: tuple[str, ...]) -> bool:
    """Whether a module that is not of transformers reads one text and writes another."""
    if isinstance(module, EncoderDecoder):
        return True
    second = takes(module)[1:2]
    masks = ("attention_mask", *PADDING)
    return {"encoder", "decoder", "cross"} <= set(streams) and not set(second) <= set(masks)


def standard_names(
    module: nn.Module, inputs: Mapping[str, Any], target: bool = False
) -> dict[str, Any]:
    """Ids and their padding under the names of transformers, where they came under forward's own.

    Args:
        module: what will be called.
        inputs: by name.
        target: whether its forward reads ids of a decoder beside.
    """
    kinds = [("", PADDING), ("decoder_", TARGET_PADDING)][: 1 + target]
    standard = dict(inputs)
    for own, (kind, paddings) in zip(takes(module), kinds, strict=False):
        ids, mask = f"{kind}input_ids", f"{kind}attention_mask"
        if ids not in standard and _are_ids(standard.get(own)):
            standard[ids] = standard.pop(own)
        hidden = next((standard[name] for name in paddings if name in standard), None)
        if mask in standard or hidden is None or ids not in standard:
            continue
        if hidden.dtype is torch.bool and hidden.shape == standard[ids].shape:
            standard = {name: x for name, x in standard.items() if name not in paddings}
            standard[mask] = (~hidden).long()
    return standard


def batch_axis(module: nn.Module, x: Tensor) -> int | None:
    """The axis of the sequences in vectors that a module reads; None where they are one sequence alone.

    torch's own modules say it by batch_first; all others are [batch, ...].
    """
    kinds = (nn.MultiheadAttention, nn.RNNBase)
    inner = (part.batch_first for part in module.modules() if isinstance(part, kinds))
    batch_first = next(inner, None)
    if batch_first is None or not type(uncompiled(module)).__module__.startswith("torch.nn."):
        return 0
    if x.dim() == 2:
        return None
    return 0 if batch_first else 1


def _are_ids(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2 and x.dtype in (torch.int64, torch.int32)


def _can_hide(names: list[str]) -> bool:
    return any(name in (*PADDING, "attention_mask") for name in names)


def _hidden(attention_mask: Tensor | None) -> Tensor | None:
    return None if attention_mask is None else attention_mask == 0
