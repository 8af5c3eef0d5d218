"""Packing: weights laid out for one token at a time, for as long as a model writes.

A step of one token multiplies every matrix with one vector, and waits for memory. On the CPU torch reads a matrix
of the usual layout no faster in bfloat16 than in float32; laid out for oneDNN it takes 0.6 of the time and gives
the same numbers. In float32 a matrix with more rows than columns is read faster by columns (0.6 to 0.75 of the
time). `benchmarks/generation.py` has the figures. The packed weights lie beside the model's own while it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headwise.nn.embedding import Embedding

__all__ = ["FROM_STEPS", "packed"]

FROM_STEPS = 12
"""From so many tokens on packing pays: it costs what a few steps gain."""

MOST_ROWS = 8
"""With more rows at a time the layout counts little."""

MOST_BYTES = 4 << 30
"""Of weights that are packed: no more than this is held twice."""

Apply = Callable[[Tensor], Tensor]


@contextmanager
def packed(model: nn.Module, rows: int, steps: int) -> Iterator[None]:
    """For the time of the `with` the model's matrices are applied from a packed copy, where that is faster.

    Args:
        model: whose linear layers, and token embeddings that are output matrices, are meant; under no_grad.
        rows: of a step.
        steps: how many are to come.
    """
    found = _matrices(model) if rows <= MOST_ROWS and steps >= FROM_STEPS else []
    if sum(weight.nbytes for _, _, weight, _ in found) > MOST_BYTES:
        found = []
    changed: list[tuple[nn.Module, str]] = []
    try:
        for module, name, weight, bias in found:
            apply = _applied(weight, bias)
            if apply is not None:
                module.__dict__[name] = apply
                changed.append((module, name))
        yield
    finally:
        for module, name in changed:
            del module.__dict__[name]


def _matrices(model: nn.Module) -> list[tuple[nn.Module, str, Tensor, Tensor | None]]:
    """Each module that applies a matrix, the name it is called by, the matrix and its bias."""
    found: list[tuple[nn.Module, str, Tensor, Tensor | None]] = []
    for module in model.modules():
        if type(module) is nn.Linear and "forward" not in module.__dict__:
            found.append((module, "forward", module.weight, module.bias))
    decoder = getattr(model, "decoder", model)
    embedding = getattr(decoder, "embedding", None)
    if isinstance(embedding, Embedding) and getattr(decoder, "unembed", None) is None:
        found.append((embedding, "unembed", embedding.tokens.weight, None))
    return [matrix for matrix in found if _fits(matrix[2])]


def _fits(weight: Tensor) -> bool:
    plain = type(weight) is nn.Parameter and weight.device.type == "cpu" and weight.is_contiguous()
    return plain and weight.dtype in (torch.float32, torch.bfloat16) and weight.numel() > 0


def _applied(weight: Tensor, bias: Tensor | None) -> Apply | None:
    """What applies the matrix from its packed copy; None where it is best as it lies."""
    if weight.dtype is torch.bfloat16:
        return _by_onednn(weight, bias)
    if weight.shape[0] < weight.shape[1]:
        return None
    by_columns = weight.t().contiguous().t()
    return lambda x: F.linear(x, by_columns, bias)


def _by_onednn(weight: Tensor, bias: Tensor | None) -> Apply | None:
    kernels = torch.ops.mkldnn
    if not torch.backends.mkldnn.is_available() or not kernels._is_mkldnn_bf16_supported():
        return None
    try:
        laid_out: Tensor = kernels._reorder_linear_weight(weight, 1)
        apply = kernels._linear_pointwise
    except (AttributeError, RuntimeError):  # a build of torch without them
        return None
    return lambda x: apply(x, laid_out, bias, "none", [], "")
