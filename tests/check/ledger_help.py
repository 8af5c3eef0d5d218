"""What the tests of the ledger hold it against: torch's own counter and real memory, in a run with values."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import headwise as hw


def real_flops(model: hw.Model, inputs: Mapping[str, Any]) -> tuple[int, int]:
    """FLOPs forward and backward by torch's FlopCounterMode.

    It has no formula for the CPU's fused attention nor for grouped products of experts, so attention is made of
    matrix products here, and experts run one by one.
    """
    if hasattr(model.module, "set_experts_implementation"):
        model.module.set_experts_implementation("eager")
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        out = model.outputs(inputs)
        forward = counter.get_total_flops()
        made = [x for x in tensors(out) if x.requires_grad]
        torch.autograd.backward(made, [torch.ones_like(x) for x in made])
        return forward, counter.get_total_flops() - forward


def real_kept(model: hw.Model, inputs: Mapping[str, Any]) -> int:
    """Bytes of memory that autograd holds after a forward pass: each storage once, those of weights left out."""
    module = model.module
    own = {x.untyped_storage()._cdata for x in (*module.parameters(), *module.buffers())}
    held: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        key = storage._cdata
        if key not in own and key not in held:
            held[key] = storage.nbytes()
            weakref.finalize(storage, held.pop, key, None)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        out = model.outputs(inputs)
    total = sum(held.values())
    del out
    return total


def tensors(out: Any) -> Iterator[Tensor]:
    if isinstance(out, Tensor):
        yield out
    elif isinstance(out, dict):
        yield from tensors(list(out.values()))
    elif isinstance(out, list | tuple):
        for one in out:
            yield from tensors(one)
