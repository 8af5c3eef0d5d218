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
    if allowed.shape[1] != 1 or not allowed.numel():
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
    queries, keys = allowed.shape[-2:]
    back = ahead = 0
    for at in range(0, queries, _ROWS):
        seen = allowed[:, 0, at : at + _ROWS].any(0)
        some = seen.any(1)
        if bool(some.any()):
            cells = seen[some].view(torch.uint8)
            q = torch.arange(at, at + len(seen), device=allowed.device)[some] + offset
            back = max(back, int((q - cells.argmax(1)).max()))
            ahead = max(ahead, int((keys - 1 - cells.flip(1).argmax(1) - q).max()))
    return [Mask(Window(None, 0)), Mask(Window(back, ahead))]


def _same(mask: Mask, allowed: Tensor, offset: int) -> bool:
    _, _, queries, keys = allowed.shape
    q, k = positions(queries, keys, offset, allowed.device)
    mask = mask.bound(queries, keys, offset)
    return all(
        bool((mask.see(q[at : at + _ROWS], k) == allowed[:, :, at : at + _ROWS]).all())
        for at in range(0, queries, _ROWS)
    )
