"""The optimizer and the schedule that every tuning and training of ours takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

__all__ = ["adamw", "cosine"]

_FUSED = ("cpu", "cuda", "mps", "xpu")
"""Devices on which torch has a step of AdamW in one kernel."""


def adamw(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
) -> AdamW:
    """AdamW (Loshchilov and Hutter 2019), in one kernel where the device has it; decay for matrices alone.

    Args:
        parameters: that change; vectors (biases, norms) are not decayed.
        learning_rate: the highest, before a schedule.
        weight_decay: of matrices, per step times the rate.
        betas: how much of the means of gradients and of their squares stays at each step.
    """
    held = list(parameters)
    kinds: list[dict[str, Any]] = [
        {"params": [p for p in held if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in held if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in _FUSED and p.is_floating_point() for p in held)
    return AdamW(
        [kind for kind in kinds if kind["params"]],
        lr=learning_rate,
        betas=betas,
        weight_decay=weight_decay,
        fused=fused,
    )


def cosine(optimizer: AdamW, warmup: int, steps: int, least: float = 0.0) -> LambdaLR:
    """The rate rises evenly over the warm-up, then falls as a half cosine (Loshchilov and Hutter 2017).

    Args:
        optimizer: whose rates are the highest.
        warmup: how many steps it rises; the first of them has 1 / (warmup + 1) of the highest.
        steps: how many there will be.
        least: what it falls to at the end, as a share of the highest.
    """

    def share(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        return least + (1 - least) * (0.5 + 0.5 * math.cos(math.pi * done))

    return LambdaLR(optimizer, share)
