"""One call of torch's multi_head_attention_forward in our words: its scores, its values, its heads.

torch's masks say True = may NOT attend, or are added to the scores; here they become a mask (True = may attend,
recognised as causal, window or padding where they are one), and a bias where they hold more than 0 and -inf. A
value at the very bottom of the dtype hides a key as -inf does, as long as the row has another to look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.recognise import recognise
from headwise.core.scores import Scores
from headwise.names import ModelError, ShapeError

Call = Mapping[str, Any]
"""The arguments of torch.nn.functional.multi_head_attention_forward by name."""


class Reader:
    """Reads calls; a mask that many layers share is read once, unless it was written to in between."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[object, Mask | None, Tensor | None]] = {}

    def read(self, call: Call) -> tuple[Scores, Float[Tensor, "batch head key head_dim"]]:
        """The scores and values of a call, an unbatched one as a batch of 1.

        Raises:
            ModelError: keys or values projected elsewhere (static_k, static_v).
            ShapeError: a mask of another shape than torch takes.
        """
        if call["static_k"] is not None or call["static_v"] is not None:
            raise ModelError(
                "attention with static_k or static_v cannot be looked into; pass keys and values to project"
            )
        q, k, v = (heads_of(x, call["num_heads"]) for x in _projected(call))
        queries, keys = q.shape[-2], k.shape[-2]
        mask, bias = self._mask(call, q, keys)
        scale = q.shape[-1] ** -0.5
        return Scores(q, k, mask, scale, bias, query_offset=keys - queries), v

    def _mask(self, call: Call, q: Tensor, keys: int) -> tuple[Mask | None, Tensor | None]:
        shape = (*q.shape[:3], keys)
        given = (call["attn_mask"], call["key_padding_mask"])
        marks = (*(_mark(x) for x in given), call["is_causal"], call["need_weights"], shape)
        known = self._known.get(marks)  # holds the tensors, so that their ids stay their own
        if known is None:
            known = self._known[marks] = (given, *_read_mask(call, q, keys))
        return known[1:]


def heads_of(
    x: Float[Tensor, "position *batch d_model"], num_heads: int
) -> Float[Tensor, "batch head position head_dim"]:
    """The slice of each head; an unbatched [position, d_model] is a batch of 1."""
    x = x.unsqueeze(1) if x.dim() == 2 else x
    return x.view(*x.shape[:2], num_heads, -1).permute(1, 2, 0, 3)


def _projected(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v before they are split into heads, [position, batch, d_model], with torch's extra keys."""
    streams = [call[name] for name in ("query", "key", "value")]
    streams = [x.unsqueeze(1) if x.dim() == 2 else x for x in streams]
    if call["use_separate_proj_weight"]:
        weights = [call[f"{name}_proj_weight"] for name in "qkv"]
    else:
        weights = call["in_proj_weight"].chunk(3)
    packed = call["in_proj_bias"]
    biases = (None, None, None) if packed is None else packed.chunk(3)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip(streams, weights, biases, strict=True))
    if call["bias_k"] is not None:
        k = torch.cat([k, call["bias_k"].to(k.dtype).expand(1, k.shape[1], -1)])
        v = torch.cat([v, call["bias_v"].to(v.dtype).expand(1, v.shape[1], -1)])
    if call["add_zero_attn"]:
        k, v = (F.pad(x, (0, 0, 0, 0, 0, 1)) for x in (k, v))
    return q, k, v


def _mark(x: Tensor | None) -> tuple[int, int]:
    """What tells whether a tensor is still the same: itself, and how often it was written to."""
    return id(x), 0 if x is None or x.is_inference() else x._version


def _read_mask(call: Call, q: Tensor, keys: int) -> tuple[Mask | None, Tensor | None]:
    batch, heads, queries, _ = q.shape
    offset = keys - queries
    by_hint = call["is_causal"] and call["key_padding_mask"] is None and not call["need_weights"]
    if by_hint:  # torch then leaves the mask unread and takes the triangle from the first key on
        triangle = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device).tril()
        return (masks.causal() if offset == 0 else recognise(triangle, offset)), None
    added = _added(call, batch, heads, q.dtype)
    if added is None:
        return None, None
    added = F.pad(added, (0, keys - added.shape[-1])).expand(-1, -1, queries, -1)
    allowed, bias = _split(added)
    mask = recognise(allowed, offset)
    return (None if mask.form(queries, keys, offset) == "full" else mask), bias


def _added(call: Call, batch: int, heads: int, dtype: torch.dtype) -> Tensor | None:
    """Both masks as what torch adds to the scores, [#batch, #head, #query, key], without the extra keys."""
    length, width = call["query"].shape[0], call["key"].shape[0]
    attn, padding = call["attn_mask"], call["key_padding_mask"]
    if attn is not None and tuple(attn.shape) not in (
        (length, width),
        (batch * heads, length, width),
    ):
        raise ShapeError(
            f"attn_mask must be [query={length}, key={width}] or "
            f"[batch * head={batch * heads}, query, key], came {list(attn.shape)}"
        )
    if padding is not None and tuple(padding.shape) not in ((batch, width), (width,)):
        raise ShapeError(
            f"key_padding_mask must be [batch={batch}, key={width}], came {list(padding.shape)}"
        )
    parts = []
    if attn is not None:
        sides = (batch, heads) if attn.dim() == 3 else (1, 1)
        parts.append(_additive(attn, dtype).view(*sides, length, width))
    if padding is not None:
        parts.append(_additive(padding, dtype).view(-1, 1, 1, width))
    return sum(parts[1:], parts[0]) if parts else None


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))


def _split(
    added: Float[Tensor, "#batch #head query key"],
) -> tuple[Bool[Tensor, "#batch #head query key"], Tensor | None]:
    """Who may attend, the same for all heads where it is, and what is added to the scores beside."""
    hidden = added < torch.finfo(added.dtype).min / 2
    alone = hidden.all(-1, keepdim=True)  # rows whose only keys are at the bottom look at these
    hidden = hidden & ~(alone & ~added.isneginf())
    rest = added.masked_fill(hidden, 0.0)
    bias = rest if added.requires_grad or bool(rest.any()) else None
    if bool((hidden == hidden[:, :1]).all()):
        hidden = hidden[:, :1]
    return ~hidden, bias
