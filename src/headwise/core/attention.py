"""attend: the one attention function everything in headwise passes.

Nothing asked, it is scaled_dot_product_attention with the cheapest exact form of the mask: none, the kernel's
own triangle, a chunked window (linear in the length), dense last; on the CPU, without gradients, the compiled
kernel where that is faster (`plain`). Asked for the pattern, or given a softcap or sinks, which no fused kernel
has everywhere, it takes the explicit path, block by block of rows. All paths give the same result; none
changes who may attend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, overload

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headwise.core import plain
from headwise.core.arguments import check, check_extras, fits, require_tensor
from headwise.core.bands import chunked
from headwise.core.halves import sdpa
from headwise.core.masks import Mask
from headwise.core.masks import positions as positions_of
from headwise.core.scores import Scores, mix, open_rows
from headwise.names import ShapeError

__all__ = ["Edit", "Meter", "Observer", "attend", "spread"]

Observer = Callable[[Scores, Tensor, Tensor], None]
"""Called after the call as observer(scores, v, z): z is the head output before any gate."""

Edit = Callable[[Scores, Tensor, Tensor], Tensor]
"""Gives what goes on in place of the head outputs, as edit(scores, v, z), with gradients."""

Meter = Callable[[Scores, Tensor], Tensor]
"""Computes z itself, as meter(scores, v), and keeps statistics of the patterns on the way (`streaming`)."""


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = ...,
    *,
    scale: float | None = ...,
    bias: Tensor | None = ...,
    softcap: float | None = ...,
    sink: Tensor | None = ...,
    gate: Tensor | None = ...,
    dropout: float = ...,
    return_pattern: Literal[False] = ...,
    observers: Sequence[Observer] = ...,
    meter: Meter | None = ...,
    edit: Edit | None = ...,
    query_offset: int | None = ...,
) -> Tensor: ...
@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = ...,
    *,
    scale: float | None = ...,
    bias: Tensor | None = ...,
    softcap: float | None = ...,
    sink: Tensor | None = ...,
    gate: Tensor | None = ...,
    dropout: float = ...,
    return_pattern: Literal[True],
    observers: Sequence[Observer] = ...,
    meter: Meter | None = ...,
    edit: Edit | None = ...,
    query_offset: int | None = ...,
) -> tuple[Tensor, Tensor]: ...
def attend(
    q: Float[Tensor, "batch head query head_dim"],
    k: Float[Tensor, "batch kv_head key head_dim"],
    v: Float[Tensor, "batch kv_head key v_dim"],
    mask: Mask | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "#batch #head #query key"] | None = None,
    softcap: float | None = None,
    sink: Float[Tensor, " head"] | None = None,
    gate: Float[Tensor, "*head"] | None = None,
    dropout: float = 0.0,
    return_pattern: bool = False,
    observers: Sequence[Observer] = (),
    meter: Meter | None = None,
    edit: Edit | None = None,
    query_offset: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Scaled dot-product attention of every head at once (Vaswani et al. 2017, section 3.2).

    z = dropout(softmax(softcap(scale * q k^T) + bias, over the keys the mask allows)) v, then times the gate.
    A row that may see nothing gives 0 and finite gradients; NaNs of the input come through.

    Args:
        q: queries, [batch, num_heads, query, head_dim].
        k: keys, [batch, num_kv_heads, key, head_dim]; num_heads is a multiple of num_kv_heads (grouped-query
            attention, multi-query at 1), and query head i uses KV head i // (num_heads / num_kv_heads).
        v: values, [batch, num_kv_heads, key, v_dim].
        mask: who may attend; None = everyone.
        scale: factor on q k^T; None = 1 / sqrt(head_dim).
        bias: added to the scores (ALiBi, T5), broadcastable to [batch, num_heads, query, key].
        softcap: scores become softcap * tanh(scores / softcap) before the bias (Gemma 2).
        sink: one logit per head [num_heads] that takes part in the softmax and takes its weight away (GPT-OSS).
        gate: factor on each head's output, [num_heads], [batch, num_heads] or [batch, num_heads, query].
        dropout: probability with which a weight is dropped; pass 0 in eval.
        return_pattern: also return the pattern, before dropout, [batch, num_heads, query, key].
        observers: called as observer(scores, v, z) afterwards.
        meter: computes z and statistics in one walk, without gradients; where z needs gradients or dropout
            it runs beside, and z is computed as always.
        edit: called as edit(scores, v, z) after the observers, before the gate; what it gives, like z, goes on.
        query_offset: position of the first query; None puts the last query at the last key.

    Returns:
        z like q (v_dim in place of head_dim); with return_pattern, (z, pattern).

    Raises:
        ShapeError: shapes that do not fit.
        MaskError: a mask that is no Mask, too short, or made for another batch or number of heads; a
            bias that is not floating point.
        ConfigError: a softcap of 0 or below, a dropout outside 0 to 1.
    """
    q, k, v = _autocast(q, k, v)
    check(q, k, v)
    check_extras(q, k, mask, bias, softcap, sink, dropout)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    offset = k.shape[-2] - q.shape[-2] if query_offset is None else query_offset
    pattern = None
    metered = None
    if meter is not None:
        with torch.no_grad():
            metered = meter(Scores(q, k, mask, scale, bias, softcap, sink, offset), v)
    needs_own = (
        return_pattern
        or dropout > 0
        or (torch.is_grad_enabled() and _needs_grad(q, k, v, bias, sink))
    )
    if metered is not None and not needs_own:
        z = metered
    elif return_pattern or softcap is not None or sink is not None:
        scores = Scores(q, k, mask, scale, bias, softcap, sink, offset)
        z, pattern = _explicit(scores, v, dropout, return_pattern)
    else:
        z = _fused(q, k, v, mask, scale, bias, dropout, offset, compiled=not observers)
    for observer in observers:
        observer(Scores(q, k, mask, scale, bias, softcap, sink, offset), v, z)
    if edit is not None:
        z = edit(Scores(q, k, mask, scale, bias, softcap, sink, offset), v, z)
    if gate is not None:
        z = z * spread(gate, z)
    return (z, pattern) if pattern is not None else z


def _autocast(*tensors: Tensor) -> Iterator[Tensor]:
    """Under autocast, which scaled_dot_product_attention heeds, in its dtype; else as they are."""
    for x in tensors:
        kind = x.device.type if isinstance(x, Tensor) and x.is_floating_point() else None
        cast = kind is not None and x.dtype != torch.float64 and torch.is_autocast_enabled(kind)
        yield x.to(torch.get_autocast_dtype(kind)) if cast and kind is not None else x


def _needs_grad(*tensors: Tensor | None) -> bool:
    return any(x is not None and x.requires_grad for x in tensors)


def spread(gate: Tensor, z: Tensor) -> Tensor:
    """The gate with axes to multiply z [batch, head, query, v_dim]."""
    require_tensor("gate", gate)
    whole = gate[None] if gate.dim() == 1 else gate
    dims = whole.dim()
    if dims in (2, 3) and fits(whole, z.shape[:dims]) and whole.shape[1] == z.shape[1]:
        return whole[(...,) + (None,) * (4 - dims)].to(z.dtype)
    batch, heads, queries = z.shape[:3]
    raise ShapeError(
        f"gate must be [head={heads}], [batch={batch}, head={heads}] or "
        f"[batch={batch}, head={heads}, query={queries}], came {list(gate.shape)}"
    )


def _explicit(
    scores: Scores, v: Tensor, dropout: float, whole: bool
) -> tuple[Tensor, Tensor | None]:
    """Softmax in the open, by blocks of rows; the pattern is kept only when it was asked for."""
    pattern = None
    parts = []
    for start, stop in [(0, scores.shape[2])] if whole else scores.blocks():
        keys = slice(None) if whole else scores.reach(start, stop)
        pattern = scores.rows(start, stop, keys=keys)
        weights = F.dropout(pattern, dropout) if dropout else pattern
        parts.append(mix(weights, v[:, :, keys].to(pattern.dtype)).to(v.dtype))
    z = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    return z, pattern.to(v.dtype) if whole and pattern is not None else None


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    scale: float,
    bias: Tensor | None,
    dropout: float,
    offset: int,
    *,
    compiled: bool,
) -> Tensor:
    """Fused attention; `compiled` lets our own kernel do it, which observers must not be shown as their witness."""
    queries, keys = q.shape[-2], k.shape[-2]
    form = "full" if mask is None else mask.form(queries, keys, offset)
    if compiled and bias is None and not dropout:
        z = plain.attention(Scores(q, k, mask, scale, query_offset=offset), v, form)
        if z is not None:
            return z
    if bias is None and form in ("full", "causal"):
        groups = q.shape[1] // k.shape[1]
        is_causal = form == "causal"
        return sdpa(q, k, v, dropout=dropout, is_causal=is_causal, scale=scale, groups=groups)
    if mask is None or form == "full":
        return _dense(q, k, v, None, scale, bias, dropout, guard=False)
    if bias is None and form == "chunked":
        dense = partial(
            _dense,
            scale=scale,
            bias=None,
            dropout=dropout,
            guard=not mask.sees_itself(queries, keys, offset),
        )
        return chunked(q, k, v, mask, dense)
    allowed = mask.bound(queries, keys, offset).see(*positions_of(queries, keys, offset, q.device))
    guard = not mask.sees_itself(queries, keys, offset)
    return _dense(q, k, v, allowed, scale, bias, dropout, guard)


def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    scale: float,
    bias: Tensor | None,
    dropout: float,
    guard: bool,
) -> Tensor:
    """Fused attention under a dense mask; guarded, rows that may see nothing see all inside, and give 0."""
    blind = None
    if allowed is not None and guard:
        blind = ~allowed.any(-1, keepdim=True)
        allowed = allowed | blind
    attn_mask = allowed
    if bias is not None:
        attn_mask = bias
        if allowed is not None:
            attn_mask = attn_mask.masked_fill(~allowed, float("-inf"))
        attn_mask, blind = open_rows(attn_mask, blind)
    groups = q.shape[1] // k.shape[1]
    takes_groups = q.device.type == "cpu"  # no other fused kernel takes groups and a mask together
    if groups > 1 and not takes_groups:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        groups = 1
    z = sdpa(q, k, v, bias=attn_mask, dropout=dropout, scale=scale, groups=groups)
    return z if blind is None else z.masked_fill(blind, 0.0)
