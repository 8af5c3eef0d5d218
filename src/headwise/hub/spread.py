"""Models spread over devices: by accelerate's device_map, some layers on the CPU or on disk.

accelerate hangs a hook on each part, which brings weights and inputs together when the part runs. Between runs
the weights of an offloaded part are nowhere ("meta"); results of layers are on the device each ran on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headwise.names import ModelError

__all__ = ["accelerator_of", "device_of", "move"]

_HOOK = "_hf_hook"


def device_of(module: nn.Module) -> torch.device:
    """Where the inputs of a model go: where its first weights are, or will be when they run."""
    for parameter in module.parameters():
        if parameter.device.type != "meta":
            return parameter.device
    hooks = (getattr(part, _HOOK, None) for part in module.modules())
    found = (getattr(hook, "execution_device", None) for hook in hooks)
    where = next((device for device in found if device is not None), "cpu")
    return torch.device(where)


def move(module: nn.Module, device: torch.device | None, dtype: torch.dtype | None) -> None:
    """Move a model that is in one place.

    Raises:
        ModelError: its parts are spread over devices, which a move would undo.
    """
    if device is not None and any(hasattr(part, _HOOK) for part in module.modules()):
        raise ModelError(
            f"{type(module).__name__} is spread over devices by its device_map; leave device out, or load it "
            "without a device_map"
        )
    try:
        module.to(device=device, dtype=dtype)
    except (RuntimeError, NotImplementedError) as error:
        line = str(error).strip().splitlines()[0]
        raise ModelError(f"{type(module).__name__} cannot be moved: {line}") from None


def accelerator_of(cpu: bool) -> Any:
    """accelerate's view of this process: on the CPU or on what else there is, or as it was set up before."""
    from accelerate import Accelerator

    try:
        return Accelerator(cpu=cpu)
    except ValueError:  # this process set it up otherwise before
        return Accelerator()
