"""Run in float64 what casts to float32 inside, so that rounding stays at float64's and a small leak shows.

Many models take their norms, softmaxes, routers or scans in float32 on purpose, whatever dtype they are in.
Inside `widened()` every narrow dtype that code asks for is float64: the arithmetic is the same, with fewer
roundings. It also keeps the most negative float64, which models use to hide, from becoming -inf in float32.

Not covered: code that looks at a dtype and takes another way for it, and kernels that torch functions do not call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["widened"]

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
_CASTS = ("float", "half", "bfloat16")


@contextmanager
def widened() -> Iterator[None]:
    """Every narrow float that code asks for inside is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(before)


class _Wide(TorchFunctionMode):
    """Asks for float64 where float32, bfloat16 or float16 is asked for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _CASTS and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        args = tuple(_wide(x) for x in args)
        return func(*args, **{name: _wide(x) for name, x in (kwargs or {}).items()})


def _wide(x: Any) -> Any:
    return torch.float64 if isinstance(x, torch.dtype) and x in _NARROW else x
