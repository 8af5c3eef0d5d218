"""Which classes write attention out by hand, told from their code alone.

The forward of such a class, with the methods and functions of its own file that it calls, takes a softmax and
two products, or calls scaled_dot_product_attention, and uses nothing that `written_out` does not follow.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

__all__ = ["writes_attention"]

_PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum"}
_FUSED = "scaled_dot_product_attention"
_SOFTMAX = {"softmax", "Softmax"}
_NOT_FOLLOWED = {
    *("as_strided", "unfold", "topk", "cumsum", "scatter", "scatter_", "index_add"),
    "linear_sum_assignment",
}
"""Scores picked, moved or shared out in pieces; and an assignment, which is no attention."""

_AXES = 4
"""Batch, head, query, key."""


def writes_attention(cls: Any) -> bool:
    """Whether modules of this class compute softmax(q k^T) v in a way that `written_out` can follow."""
    return _judged(cls)


@cache
def _judged(cls: Any) -> bool:
    forward = getattr(cls, "forward", None)
    if forward is None or cls.__module__.startswith("torch."):
        return False
    if hasattr(cls, "_can_set_attn_implementation"):
        return False  # a whole model of transformers, which holds its attention
    names: set[str] = set()
    products = 0
    for code in _codes(cls, inspect.unwrap(forward), set()):
        names.update(code.co_names)
        products += _products(code)
        if any(isinstance(x, str) and _is_of_blocks(x) for x in code.co_consts):
            return False
    if names & _NOT_FOLLOWED:
        return False
    return _FUSED in names or (bool(names & _SOFTMAX) and products > 1)


def _is_of_blocks(text: str) -> bool:
    """Whether this is an einsum over more axes than attention has, or over axes without a name."""
    inputs, arrow, out = text.replace(" ", "").partition("->")
    return bool(arrow) and "," in inputs and ("..." in text or len(out) > _AXES)


def _codes(cls: type, function: Any, seen: set[CodeType]) -> Iterator[CodeType]:
    """The code of a function, and of what it calls on self or in its own file."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code in seen:
        return
    seen.add(code)
    yield code
    for name in code.co_names:
        called = inspect.getattr_static(cls, name, None) or function.__globals__.get(name)
        called = getattr(called, "__func__", called)
        if isinstance(called, FunctionType):
            called = inspect.unwrap(called)
            if called.__module__ == function.__module__ and name not in ("forward", "__init__"):
                yield from _codes(cls, called, seen)


def _products(code: CodeType) -> int:
    """How many products of two tensors it writes."""
    found = 0
    for step in dis.get_instructions(code):
        called = step.opname.startswith("LOAD") and step.argval in _PRODUCTS
        found += called or (step.opname == "BINARY_OP" and step.argrepr in ("@", "@="))
    return found
