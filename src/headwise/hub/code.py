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

from torch import nn

__all__ = ["writes_attention"]

_PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum"}
_FUSED = "scaled_dot_product_attention"
_NOT_FOLLOWED = {
    *("gather", "as_strided", "topk", "unfold", "index_select", "index_add", "scatter", "scatter_"),
    *("grid_sample", "cumsum", "chunk_sparse_attention"),
}


@cache
def writes_attention(cls: type) -> bool:
    """Whether modules of this class compute softmax(q k^T) v in a way that `written_out` can follow."""
    forward = getattr(cls, "forward", None)
    if forward is None or not issubclass(cls, nn.Module) or cls.__module__.startswith("torch."):
        return False
    names: set[str] = set()
    products = 0
    for code in _codes(cls, inspect.unwrap(forward), set()):
        names.update(code.co_names)
        products += _products(code)
        if any(isinstance(x, str) and "..." in x and "->" in x for x in code.co_consts):
            return False  # an einsum over axes it does not name
    if names & _NOT_FOLLOWED:
        return False
    return _FUSED in names or ("softmax" in names and products > 1)


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
