"""Recognise a dense mask: find the rule it was made from, so that it is kept in O(n) and runs fused."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.core.masks import Mask, full, padding, positions, tensor
from headwise.core.rules import Window

_ROWS = 256
"""Rows compared at a time, so that no second n x n tensor is held."""


def recognise(allowed: Bool[Tensor, "batch head query key"], query_offset: int) -> Mask:
    """The mask as full, causal or window, with padding where keys are hidden from all; else the tensor.

    The answer is exact: what comes back has the very same dense form.
    """
    if allowed.shape[1] != 1 or not allowed.shape[2]:
        return tensor(allowed)
    real = allowed.any(2)[:, 0]
    limit = None if bool(real.all()) else padding(key_padding_mask=~real)
    for rule in (full(), *_windows(allowed, query_offset)):
        mask = rule if limit is None else rule & limit
        if _same(mask, allowed, query_offset):
            return mask
    return tensor(allowed)


def _windows(allowed: Tensor, offset: int) -> list[Mask]:
    """Causal, and the window whose reach is the farthest a query looks back and ahead."""
    _, _, queries, keys = allowed.shape
    causal = Mask(Window(None, 0))
    seen = allowed.any(0)[0]
    some = seen.any(1)
    if not bool(some.any()):
        return [causal]
    q = torch.arange(queries, device=allowed.device)[some] + offset
    first = seen.int().argmax(1)[some]
    last = keys - 1 - seen.flip(1).int().argmax(1)[some]
    back, ahead = int((q - first).max()), int((last - q).max())
    window = Window(max(back, 0), max(ahead, 0))
    return [causal, Mask(window)]


def _same(mask: Mask, allowed: Tensor, offset: int) -> bool:
    _, _, queries, keys = allowed.shape
    q, k = positions(queries, keys, offset, allowed.device)
    mask = mask.bound(queries, keys, offset)
    return all(
        bool((mask.see(q[at : at + _ROWS], k) == allowed[:, :, at : at + _ROWS]).all())
        for at in range(0, queries, _ROWS)
    )
