"""How large fresh weights are."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import nn

__all__ = ["GPT2", "widened"]

GPT2 = 0.02
"""Standard deviation of the weights that GPT-2, and with it `headwise.nn`, starts from."""
Module = TypeVar("Module", bound=nn.Module)


def widened(module: Module, d_model: int) -> Module:
    """The module with matrices and tables started at 1 / sqrt(d_model) in place of GPT-2's 0.02, in place.

    GPT-2's start is for streams of a thousand channels and more. In one of 64 the scores begin so near 0, and
    embeddings so much smaller than the sinusoids added to them, that a short training is over before it has found
    the positions. Multiplied by sqrt(d_model), embeddings now begin at 1, about as large as sinusoids (Vaswani et
    al. 2017).
    """
    with torch.no_grad():
        for weight in module.parameters():
            if weight.dim() > 1:
                weight.mul_(1 / (GPT2 * math.sqrt(d_model)))
    return module
