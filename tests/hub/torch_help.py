"""Small modules of torch.nn with weights spread wide, so that heads look somewhere, and a way to watch them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.routes.torch_attention import is_torch_attention, opened

Seen = list[tuple[Scores, Tensor, Tensor]]


def sharp(module: nn.Module, seed: int = 0) -> nn.Module:
    """In eval mode, every weight drawn anew."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            for parameter in part.parameters(recurse=False):
                if not isinstance(part, nn.LayerNorm):
                    parameter.normal_(0, 0.4 if parameter.dim() > 1 else 0.2)
    return module.eval()


def encoder(batch_first: bool = True, **kwargs: Any) -> nn.TransformerEncoder:
    """Two layers of 8 channels and 2 heads."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, **kwargs)
    made = nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first)
    return sharp(made)  # type: ignore[return-value]


def attentions(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if is_torch_attention(type(part))]


def watched(module: nn.Module, *args: Any, gate: Tensor | None = None, **kwargs: Any) -> Any:
    """What the module returns while every attention in it is observed, and what was seen."""
    seen: Seen = []
    tap = Tap(observers=(lambda *call: seen.append(call),), gate=gate)
    with opened(module), tapped(dict.fromkeys(attentions(module), tap)):
        out = module(*args, **kwargs)
    return out, seen


def hidden(*lengths: int, width: int | None = None, left: bool = False) -> Tensor:
    """True = padding, for sequences of these lengths."""
    rows = torch.arange(width or max(lengths)) >= torch.tensor(lengths)[:, None]
    return rows.flip(1) if left else rows


def later(length: int) -> Tensor:
    """True = may not attend: what comes later."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A boolean mask of torch's as what is added to the scores."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, float("-inf"))
