"""In which precision the passes of a training run: bfloat16 where it was measured to pay."""

from __future__ import annotations

import torch

from headwise.train.recipe import Dtype

__all__ = ["precision"]

_GPU = (8, 0)
"""From this compute capability on, GPUs multiply bfloat16 at a multiple of float32's speed."""


_CPU = ("amx_bf16", "avx512_bf16")
"""With one of these a step on the CPU takes about 0.6 to 0.7 of the time of float32."""


def precision(dtype: Dtype, device: torch.device) -> tuple[torch.dtype | None, str]:
    """The dtype of autocast, None for float32, and why.

    Args:
        dtype: of the recipe.
        device: where the passes run.
    """
    if dtype == "float32":
        return None, "float32, as asked"
    if dtype == "bfloat16":
        return torch.bfloat16, "bfloat16, as asked"
    pays, why = _pays(device)
    return (torch.bfloat16 if pays else None), f"{'bfloat16' if pays else 'float32'}: {why}"


def _pays(device: torch.device) -> tuple[bool, str]:
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        told = f"the GPU's compute capability is {major}.{minor}"
        return (major, minor) >= _GPU, told
    if device.type == "cpu":
        has = sorted(name for name in _CPU if torch.cpu.get_capabilities().get(name))
        if has:
            return True, f"the CPU has {has[0]}"
        return False, "the CPU has no instructions for bfloat16"
    return False, f"not measured on {device.type}"
