"""Packing: weights laid out for one token at a time, for as long as a model writes.

A step of one token multiplies every matrix with one vector, and waits for memory. On the CPU torch reads a matrix
of the usual layout no faster in bfloat16 than in float32; laid out for oneDNN it takes 0.6 of the time and gives
the same numbers. In float32 a matrix with more rows than columns is read faster by columns (0.6 to 0.75 of the
time). `benchmarks/generation.py` has the figures. The packed weights lie beside the model's own while it writes.

Who comes second to a model, nested or in another thread, reads through what the first packed and packs only what
the first did not. A copy made meanwhile is not packed, and gradients are those of the model's own weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    patches: list[_Patch] = []
    try:
        for module, name, weight, bias in found:
            apply = _applied(weight, bias)
            if apply is not None:
                patches.append(_Patch(module, name, _without_gradients(apply, weight, bias)))
                patches[-1].put()
        yield
    finally:
        for patch in patches:
            patch.take_away()


@dataclass(frozen=True)
class _Patch:
    """A method of one module in place of its class's, which nobody but who put it there takes away."""

    module: nn.Module
    name: str
    apply: Apply

    def put(self) -> None:
        """Apply the packed copy, if no other does."""
        held, copied = self.module.__dict__, self.copied
        if held.setdefault("__reduce_ex__", copied) is copied:  # in one step: one thread of several
            held[self.name] = self.apply

    def take_away(self) -> None:
        """Apply the module's own weight again."""
        held = self.module.__dict__
        if held.get(self.name) is self.apply:
            del held[self.name]
        if held.get("__reduce_ex__") == self.copied:
            del held["__reduce_ex__"]

    def copied(self, protocol: Any) -> tuple[Any, ...]:
        """What copy and pickle make another module of: all but the patch."""
        reduced: Any = object.__reduce_ex__(self.module, protocol)
        state = dict(self.module.__dict__)
        state.pop("__reduce_ex__", None)
        if state.get(self.name) is self.apply:
            del state[self.name]
        return *reduced[:2], state


def _without_gradients(apply: Apply, weight: Tensor, bias: Tensor | None) -> Apply:
    def choose(x: Tensor) -> Tensor:
        return F.linear(x, weight, bias) if torch.is_grad_enabled() else apply(x)

    return choose


def _matrices(model: nn.Module) -> list[tuple[nn.Module, str, Tensor, Tensor | None]]:
    """Each module that applies a matrix, the name it is called by, the matrix and its bias."""
    found: list[tuple[nn.Module, str, Tensor, Tensor | None]] = []
    for module in model.modules():
        if type(module) is nn.Linear:
            found.append((module, "forward", module.weight, module.bias))
    decoder = getattr(model, "decoder", model)
    embedding = getattr(decoder, "embedding", None)
    if isinstance(embedding, Embedding) and getattr(decoder, "unembed", None) is None:
        found.append((embedding, "unembed", embedding.tokens.weight, None))
    return [one for one in found if one[1] not in one[0].__dict__ and _fits(one[2])]


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
