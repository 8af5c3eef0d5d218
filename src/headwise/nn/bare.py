"""Models without weights, on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

__all__ = ["empty"]


def empty(model_class: Callable[..., nn.Module], config: Any, **further: Any) -> nn.Module:
    """A model without weights, on the meta device: what its class makes of a configuration."""
    with torch.device("meta"), _NoStart():
        return model_class(config, **further)


class _NoStart(TorchFunctionMode):
    """Leaves out every filling in place: on the meta device it would fill nothing, slowly."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
