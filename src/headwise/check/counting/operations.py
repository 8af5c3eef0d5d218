"""What one operation of torch costs, in FLOPs, and what it reads: a map (a weight), or two results (a product).

The formulas are torch's own (torch.utils.flop_counter): matrix products, convolutions and fused attention, 2 for
each multiply-add, all n x n scores counted whatever the mask; all else is 0. What torch has no formula for is here:
the CPU's fused attention and the product by groups of experts. The backward of fused attention counts as twice its
forward, which is what its gradients need; that a fused kernel also makes the scores again is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry, sdpa_flop

__all__ = [
    "attends",
    "attention_flops",
    "flops_of",
    "grouped",
    "operands",
    "tensors_in",
    "turned",
    "width_of",
]

_ATEN: Any = torch.ops.aten

_PRODUCTS: Mapping[Any, slice] = {
    _ATEN.mm: slice(0, 2),
    _ATEN.bmm: slice(0, 2),
    _ATEN._grouped_mm: slice(0, 2),
    _ATEN.addmm: slice(1, 3),
    _ATEN.baddbmm: slice(1, 3),
    _ATEN.convolution: slice(0, 2),
    _ATEN._convolution: slice(0, 2),
}
"""Products of two tensors, and where these stand among the arguments."""

_FUSED = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu,
    _ATEN._scaled_dot_product_flash_attention,
    _ATEN._scaled_dot_product_efficient_attention,
    _ATEN._scaled_dot_product_cudnn_attention,
    _ATEN._scaled_dot_product_fused_attention_overrideable,
}
_FUSED_BACKWARD = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward,
    _ATEN._scaled_dot_product_flash_attention_backward,
    _ATEN._scaled_dot_product_efficient_attention_backward,
    _ATEN._scaled_dot_product_cudnn_attention_backward,
    _ATEN._scaled_dot_product_fused_attention_overrideable_backward,
}


def flops_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int:
    """The FLOPs of one operation; 0 for what no formula is for."""
    packet = func._overloadpacket
    if packet in _FUSED:
        q, k, v = args[:3]
        return int(sdpa_flop(q.shape, _of_heads(k, q), _of_heads(v, q)))
    if packet in _FUSED_BACKWARD:
        q, k, v = args[1:4]
        return 2 * int(sdpa_flop(q.shape, _of_heads(k, q), _of_heads(v, q)))
    if packet is _ATEN._grouped_mm:
        return _grouped_flops(args[0], args[1])
    formula: Callable[..., int] | None = flop_registry.get(packet)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=out))


def attends(func: Any) -> bool:
    """Whether an operation is the whole of attention, fused."""
    return func._overloadpacket in _FUSED


def attention_flops(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int]:
    """The FLOPs of the scores, and of mixing the values, of fused attention."""
    batch, heads, queries, dim = q.shape
    pairs = 2 * batch * heads * queries * k.shape[2]
    return pairs * dim, pairs * v.shape[3]


def operands(func: Any, args: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """The two tensors that an operation multiplies; None where it is no product."""
    where = _PRODUCTS.get(func._overloadpacket)
    if where is None:
        return None
    one, other = args[where]
    return one, other


def grouped(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """What a product by groups gives, of the right shape and no values; None for any other operation.

    Fake tensors know it in bfloat16 alone.
    """
    if func._overloadpacket is not _ATEN._grouped_mm:
        return None
    one, other = args[:2]
    ends = kwargs.get("offs", args[2] if len(args) > 2 else None)
    shape: tuple[int, ...]
    if one.dim() == 2 and other.dim() == 2:
        shape = (len(ends), one.shape[0], other.shape[1])
    elif one.dim() == 2:
        shape = (one.shape[0], other.shape[2])
    elif other.dim() == 2:
        shape = (one.shape[1], other.shape[1])
    else:
        shape = (one.shape[0], one.shape[1], other.shape[2])
    made: Tensor = one.new_empty(shape)
    return made


def width_of(func: Any, weight: int, out: Tensor) -> int:
    """The channels that a map makes: the last axis of a product, the second of a convolution."""
    if "conv" in func._overloadpacket.__name__:
        return out.shape[1]
    return out.shape[-1 if weight else -2]


def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last two axes the other way round."""
    return (*shape[:-2], shape[-1], shape[-2])


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)


def _of_heads(k: Tensor, q: Tensor) -> torch.Size:
    """The shape of keys or values given to every query head."""
    return torch.Size((k.shape[0], q.shape[1], *k.shape[2:]))


def _grouped_flops(one: Tensor, other: Tensor) -> int:
    """Each row of what is grouped meets one group's matrix."""
    if one.dim() == 3 and other.dim() == 3:
        return 2 * math.prod(one.shape) * other.shape[2]
    if one.dim() == 2 and other.dim() == 2:
        return 2 * math.prod(one.shape) * other.shape[1]
    rows, matrix = (one, other) if one.dim() == 2 else (other, one)
    width = matrix.shape[2] if one.dim() == 2 else matrix.shape[1]
    return 2 * math.prod(rows.shape) * width
