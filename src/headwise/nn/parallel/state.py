"""The weights of a parallel model as those of a model in one process, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from headwise.nn.parallel.linear import Packed

__all__ = ["full_state", "take_whole_states"]


def full_state(model: nn.Module) -> dict[str, Tensor]:
    """The state dict of the model in one process: the same names, whole tensors, packed rows in order.

    Every process must call it, and each gets all of it.

    Args:
        model: from `by_heads`; any other gives its own state dict.
    """
    joins = dict(_packed(model))
    found: dict[str, list[Tensor]] = {}
    for name, tensor in model.state_dict().items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        found.setdefault(joins.get(name, name), []).append(whole.detach())
    return {name: torch.cat(t) if len(t) > 1 else t[0] for name, t in found.items()}


def take_whole_states(model: nn.Module) -> None:
    """Let `load_state_dict` of a parallel model also take whole tensors by the names of a model in one process."""
    model.register_load_state_dict_pre_hook(_split)


def _split(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    own = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    parts: dict[str, list[str]] = {}
    for part, name in _packed(model):
        parts.setdefault(prefix + name, []).append(prefix + part)
    for name, names in parts.items():
        sizes = [len(own[part]) for part in names]
        if name in state and len(state[name]) == sum(sizes):
            state.update(zip(names, state.pop(name).split(sizes), strict=True))
    for name, held in own.items():
        came = state.get(name)
        if not isinstance(came, Tensor) or isinstance(came, DTensor):
            continue
        if isinstance(held, DTensor) and came.shape == held.shape:
            state[name] = distribute_tensor(
                came, held.device_mesh, held.placements, src_data_rank=None
            )


def _packed(model: nn.Module) -> Iterator[tuple[str, str]]:
    """The name of each part's parameter, and that of the packed one it is of."""
    for path, module in model.named_modules():
        if isinstance(module, Packed):
            for name, _ in module.named_parameters():
                leaf = name.rpartition(".")[2]
                yield f"{path}.{name}".lstrip("."), f"{path}.{leaf}".lstrip(".")
