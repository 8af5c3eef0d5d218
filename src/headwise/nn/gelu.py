"""GELU by the tanh formula, at the speed of the sigmoid on the CPU.

0.5 (1 + tanh(u)) is sigmoid(2 u), and torch's tanh takes six times as long there as its sigmoid. The same function,
in float32 inside; elsewhere, in graphs and for few numbers it is torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["gelu_tanh"]

_SLOPE = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _SLOPE
_FEW = 1 << 14
"""Up to so many numbers one call of torch is faster than several."""


def gelu_tanh(x: Tensor) -> Tensor:
    """x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016); like x."""
    if not _faster(x):
        return F.gelu(x, approximate="tanh")
    if torch.is_grad_enabled() and x.requires_grad:
        out: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
        return out
    return _forward(x)


def _faster(x: Tensor) -> bool:
    plain = type(x) in (Tensor, torch.nn.Parameter) and x.device.type == "cpu"
    if torch.compiler.is_compiling() or not plain or x.dtype is torch.float64:
        return False
    transformed = torch._C._functorch.peek_interpreter_stack() is not None  # vmap, jvp, ...
    return not transformed and x.numel() > _FEW


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in float32, 2 u / x, sigmoid(2 u)."""
    wide = x.float()
    slope = torch.addcmul(wide.new_tensor(_SLOPE), wide, wide, value=_CUBIC)
    return wide, slope, (wide * slope).sigmoid_()


def _forward(x: Tensor) -> Tensor:
    wide, _, share = _parts(x)
    return share.mul_(wide).to(x.dtype)


class _Gelu(torch.autograd.Function):
    """The same with gradients; keeps x alone, as torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _forward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # of a gradient of gradients
            whole: Tensor = torch.ops.aten.gelu_backward(grad, x, approximate="tanh")
            return whole
        wide, slope, share = _parts(x)
        slope.mul_(3).sub_(2 * _SLOPE)  # of 2 u
        made = torch.rsub(share, 1).mul_(wide).mul_(slope).add_(1).mul_(share)
        return made.mul_(grad).to(x.dtype)
