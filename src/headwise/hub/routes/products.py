"""The products of attention written out by hand: queries with keys, and the pattern with values.

Read from matmul, bmm, baddbmm, einsum and scaled_dot_product_attention, whatever the order of their axes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headwise.hub.routes.algebra import Product, shifted

__all__ = ["Mixed", "fused", "mixed", "operands", "product"]


@dataclass(frozen=True, eq=False)
class Mixed:
    """The product of a pattern with values: v [..., key, v_dim]; `order` puts its axes as lead, query, v_dim."""

    pattern: Product
    v: Tensor
    order: tuple[int, ...]


_MATMUL = ("matmul", "bmm", "rmatmul")


def operands(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The two tensors that this function multiplies; None where it is no product of two."""
    if name in _MATMUL:
        both = (*args, *(kwargs[k] for k in ("input", "other", "mat2") if k in kwargs))
        return None if len(both) < 2 else (both[1], both[0]) if name[0] == "r" else both[:2]
    if name == "baddbmm":
        given = dict(zip(("input", "batch1", "batch2"), args, strict=False)) | kwargs
        return given.get("batch1"), given.get("batch2")
    if name == "einsum" and args and isinstance(args[0], str):
        both = tuple(args[1]) if isinstance(args[1], list | tuple) else args[1:]
        return (both[0], both[1]) if len(both) == 2 else None
    return None


def product(
    name: str, a: Tensor, b: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Product | None:
    """What the product of these two holds if they are queries and keys; None where they cannot be."""
    if min(a.dim(), b.dim()) < 3 or not a.is_floating_point():
        return None
    if name == "einsum":
        return _einsum_product(args[0], a, b)
    found = _of(a, b.transpose(-1, -2))
    if name != "baddbmm":
        return found
    added = args[0] if args and args[0] is not a else kwargs.get("input")
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    found = replace(found, scale=float(alpha))
    return found if beta == 0 or added is None else shifted(found, beta * added)


def mixed(
    name: str, pattern: Product, pair: tuple[Tensor, Tensor], at: int, args: tuple[Any, ...]
) -> Mixed | None:
    """The product of a pattern, which is the at-th of the two, with values; None where it is another product."""
    v = pair[1 - at]
    axes = len(pattern.lead) + 2
    if name == "einsum":
        return None if pattern.turned else _einsum_mixed(args[0], pattern, v, at)
    if v.dim() != axes or (at == 1) != pattern.turned:
        return None
    order = tuple(range(axes))
    if at == 0:
        return Mixed(pattern, v, order)
    return Mixed(pattern, v.transpose(-1, -2), (*order[:-2], axes - 1, axes - 2))  # v^T pattern^T


def fused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mixed | None:
    """A call of scaled_dot_product_attention; None where it has no axis of batch or heads."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    q, k, v = given["query"], given["key"], given["value"]
    if q.dim() not in (3, 4):
        return None
    scale = given.get("scale")
    found = _of(q, k, grouped=bool(given.get("enable_gqa")))
    found = replace(found, scale=q.shape[-1] ** -0.5 if scale is None else float(scale))
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        cells = torch.ones(found.shape[-2:], dtype=torch.bool, device=q.device)
        found = replace(found, masks=(cells.tril(),))
    if mask is not None and mask.dtype is torch.bool:
        found = replace(found, masks=(*found.masks, mask))
    elif mask is not None:
        found = shifted(found, mask)
    found = replace(found, normal=True, dropped=given.get("dropout_p", 0.0) > 0)
    return Mixed(found, v, tuple(range(q.dim())))


def _of(q: Tensor, k: Tensor, *, grouped: bool = False) -> Product:
    if grouped:
        return Product(q, k, tuple(q.shape[:-2]))
    return Product(q, k, tuple(torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])))


def _einsum_product(equation: str, a: Tensor, b: Tensor) -> Product | None:
    parts = _parts(equation)
    if parts is None or len(parts[2]) < 3:
        return None
    first, second, out = parts
    lead, query, key = out[:-2], out[-2], out[-1]
    if query not in first:
        first, second, a, b = second, first, b, a
    shared = (set(first) & set(second)) - set(out)
    apart = query in first and query not in second and key in second and key not in first
    if not apart or len(shared) != 1 or (set(first) | set(second)) - set(out) != shared:
        return None
    dim = shared.pop()
    return _of(_arranged(a, first, lead + query + dim), _arranged(b, second, lead + key + dim))


def _einsum_mixed(equation: str, pattern: Product, v: Tensor, at: int) -> Mixed | None:
    parts = _parts(equation)
    if parts is None:
        return None
    cells, values, out = parts[at], parts[1 - at], parts[2]
    if len(cells) != len(pattern.lead) + 2:
        return None
    lead, query, key = cells[:-2], cells[-2], cells[-1]
    extra = set(values) - set(cells)
    if len(extra) != 1 or key not in values or key in out or query in values:
        return None
    dim = extra.pop()
    order = lead + query + dim
    if set(order) != set(out):
        return None
    return Mixed(pattern, _arranged(v, values, lead + key + dim), tuple(map(out.index, order)))


def _parts(equation: str) -> tuple[str, str, str] | None:
    """The two inputs and the output of an einsum in which every axis has its own letter."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    first, comma, second = left.partition(",")
    parts = (first, second, out)
    plain = arrow and comma and all(x.isalpha() and len(set(x)) == len(x) for x in parts)
    return parts if plain else None


def _arranged(x: Tensor, have: str, want: str) -> Tensor:
    """x with its axes in the order wanted, those it lacks with size 1."""
    x = x.permute([have.index(c) for c in want if c in have])
    for at, axis in enumerate(want):
        if axis not in have:
            x = x.unsqueeze(at)
    return x
