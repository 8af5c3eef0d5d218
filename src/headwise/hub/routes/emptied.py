"""Attention layers that lost all their heads: what is left of their maps, and of their cache.

Such a layer of transformers still runs its own forward, so that all else it does stays (a bias it makes for
other layers, a cache that counts positions). It attends with one head of nothing: its maps hold no weights and
give zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Nothing", "count_alone"]


_OTHERS = "_headwise_others"


class Nothing(nn.Module):
    """What is left of a linear map that gives, or reads, no head: zeros, or its bias alone.

    Args:
        of: the map, whose weight has no row or no column any more.
        columns: the weight is [in, out] and not [out, in].
        width: how many channels it gives.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, of: nn.Module, columns: bool, width: int) -> None:
        super().__init__()
        for name in ("weight", "bias"):
            self.register_parameter(name, of._parameters.get(name))
        self.columns = columns
        self.width = width

    def forward(self, x: Float[Tensor, "*position d_in"]) -> Float[Tensor, "*position width"]:
        """Zeros; where it read heads, the bias."""
        zeros = x.new_zeros(*x.shape[:-1], self.width)
        if self.bias is None or self.bias.numel() != self.width:
            return zeros
        return zeros + self.bias.to(x.dtype)

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        return f"width={self.width}"


def count_alone(module: nn.Module) -> None:
    """Let a layer keep one number per position in its cache, which counts positions by it."""
    if not any(hook is _widen for hook in module._forward_pre_hooks.values()):
        module.register_forward_pre_hook(_widen, with_kwargs=True)
        module.register_forward_hook(_narrow, with_kwargs=True)


def _widen(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The one number of each position as all the zeros it stands for.

    An encoder-decoder's cache has a place for self- and one for cross-attention: what this layer leaves as it is
    belongs to the other.
    """
    mine: list[Any] = []
    for layer in _held(module, args, kwargs):
        layer.keys, layer.values = (
            x.expand(*x.shape[:-1], width)
            for x, width in zip((layer.keys, layer.values), layer.headwise_widths, strict=True)
        )
        del layer.headwise_widths
        mine.append(layer)
    others = [layer for layer in _held(module, args, kwargs, wide=True) if layer not in mine]
    module.__dict__[_OTHERS] = [layer.keys for layer in others]


def _narrow(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
    others = module.__dict__.pop(_OTHERS, [])
    for layer in _held(module, args, kwargs, wide=True):
        if layer.keys.numel() and not any(layer.keys is keys for keys in others):
            layer.headwise_widths = (layer.keys.shape[-1], layer.values.shape[-1])
            layer.keys, layer.values = (x[..., :1].clone() for x in (layer.keys, layer.values))


def _held(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], wide: bool = False
) -> Iterator[Any]:
    """The layer's places in the growing caches it was called with."""
    from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

    index = getattr(module, "layer_idx", None)
    caches = [x for x in (*args, *kwargs.values()) if isinstance(x, Cache)]
    for one in caches:
        parts = [one]
        if isinstance(one, EncoderDecoderCache):
            parts = [one.self_attention_cache, one.cross_attention_cache]
        for part in parts:
            if isinstance(index, int) and index < len(part.layers):
                layer = part.layers[index]
                known = hasattr(layer, "headwise_widths")
                if isinstance(layer, DynamicLayer) and layer.is_initialized and known != wide:
                    yield layer


def none_like(value: Float[Tensor, "batch head key v_dim"], queries: int) -> Tensor:
    """The head output of no head, as transformers' attention functions give theirs."""
    return torch.zeros(
        value.shape[0], queries, 1, value.shape[-1], dtype=value.dtype, device=value.device
    )
