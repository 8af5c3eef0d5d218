"""The random numbers of a process, as plain data: what dropout draws after a resume is what it would have drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["put_random", "random_state", "seed_all"]


def seed_all(seed: int) -> None:
    """Seed python, numpy and torch, on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: torch.device) -> dict[str, Any]:
    """Where python's, numpy's and torch's random numbers stand, those of this device among them."""
    version, numbers, gauss = random.getstate()
    kind, keys, at, has, cached = np.random.get_state()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), at, has, cached],
        "torch": bytes(torch.get_rng_state().tolist()).hex(),
        "device": bytes(_device(device).get_rng_state().tolist()).hex()
        if _device(device)
        else None,
    }


def put_random(state: Mapping[str, Any], device: torch.device) -> None:
    """Back to where they stood."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, at, has, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), at, has, cached))
    torch.set_rng_state(_bytes(state["torch"]))
    if state["device"] is not None and _device(device):
        _device(device).set_rng_state(_bytes(state["device"]))


def _bytes(text: str) -> torch.Tensor:
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)


def _device(device: torch.device) -> Any:
    """torch's module for a device that draws its own random numbers; None for the CPU."""
    return None if device.type == "cpu" else getattr(torch, device.type, None)
