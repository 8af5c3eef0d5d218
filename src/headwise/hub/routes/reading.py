"""One attention that was followed, in our words: scores, values and head outputs of [batch, head, ...]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.recognise import recognise
from headwise.core.scores import Scores, mix
from headwise.hub.routes.algebra import Product
from headwise.hub.routes.products import Mixed

__all__ = ["Reading", "heads_of", "off", "read_whole"]


@dataclass(frozen=True, eq=False)
class Reading:
    """An attention as the instruments know it, and the way back to the tensor the module goes on with."""

    scores: Scores
    v: Tensor
    z: Tensor
    mixed: Mixed
    out: Tensor

    def back(self, z: Tensor) -> Tensor:
        """z [batch, head, query, v_dim] with the axes and dtype of the module's own result."""
        order = self.mixed.order
        shape = [self.out.shape[i] for i in order]
        return z.reshape(shape).permute([order.index(i) for i in range(len(order))]).to(self.out)


def heads_of(p: Product, v_dim: int, inputs: list[Tensor]) -> tuple[int, int] | None:
    """Batch and heads of the axes before query and key; None where they cannot be told.

    One axis of both is told apart by where it was made of two, or two of it; else by what the module was called
    with, [batch, position, width] or [position, batch, width]: by the batch with which the heads fill the width,
    or that leaves one head.
    """
    if len(p.lead) == 2:
        return p.lead[0], p.lead[1]
    if len(p.lead) != 1:
        return None
    if p.heads is not None:
        return p.heads
    (both,) = p.lead
    for x in inputs:
        for batch in x.shape[:2]:
            if both % batch == 0 and both // batch * v_dim == x.shape[-1]:
                return batch, both // batch
    return (both, 1) if any(both == x.shape[0] for x in inputs) else None


def read_whole(mixed: Mixed, out: Tensor, batch: int, heads: int) -> Reading:
    """The product of a pattern with values, and what it gave, in our words."""
    p = mixed.pattern
    z = out.permute(mixed.order)
    z = z.reshape(batch, heads, *z.shape[-2:])
    q = _four(p.q, batch, heads).expand(batch, heads, -1, -1)
    k, v = (_four(x, batch, heads).expand(batch, -1, -1, -1) for x in (p.k, mixed.v))
    groups = max(k.shape[1], v.shape[1])
    k, v = k.expand(-1, groups, -1, -1), v.expand(-1, groups, -1, -1)
    offset = k.shape[2] - q.shape[2]
    mask = _mask(p, batch, heads, offset)
    scores = Scores(q, k, mask, p.scale, _bias(p, batch, heads), p.softcap, None, offset)
    return Reading(scores, v, z, mixed, out)


def off(reading: Reading) -> float:
    """How far z recomputed from what was read is from the module's own, as a share of its largest.

    Rows that may see nothing are left out: there a module may give anything.
    """
    worst, size = 0.0, 1e-6
    scores, v = reading.scores, reading.v
    with torch.no_grad():
        for start, stop in scores.blocks():
            rows = scores.rows(start, stop)
            own = reading.z[:, :, start:stop].to(rows.dtype)
            own = own.masked_fill(rows.sum(-1, keepdim=True) == 0, 0.0)
            if own.numel():
                worst = max(worst, float((mix(rows, v.to(rows.dtype)) - own).abs().max()))
                size = max(size, float(own.abs().max()))
    return worst / size


def _mask(p: Product, batch: int, heads: int, offset: int) -> Mask | None:
    allowed: Tensor | None = None
    for cells in p.masks:
        four = _four(cells, batch, heads).expand(-1, -1, p.q.shape[-2], p.k.shape[-2])
        allowed = four if allowed is None else allowed & four
    if allowed is None or bool(allowed.all()):
        return None
    one = allowed[:, :1]
    return recognise(one if bool((allowed == one).all()) else allowed, offset)


def _bias(p: Product, batch: int, heads: int) -> Tensor | None:
    bias: Tensor | None = None
    for part in p.biases:
        four = _four(part, batch, heads)
        bias = four if bias is None else bias + four
    return None if bias is None else bias.expand(*bias.shape[:-1], p.k.shape[-2])


def _four(x: Tensor, batch: int, heads: int) -> Tensor:
    """What broadcasts to the leading axes of a product, as [1 or batch, 1 or head, ...]."""
    x = x[(None,) * max(0, 3 - x.dim())]
    if x.dim() == 3 and x.shape[0] == batch * heads:
        return x.reshape(batch, heads, *x.shape[-2:])
    return x[None] if x.dim() == 3 else x
