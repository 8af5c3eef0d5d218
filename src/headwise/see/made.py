"""What a table was computed with: the model's dtype and device, and the versions of the libraries."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from headwise.hub.load import Model

__all__ = ["made_with"]


def made_with(model: Model) -> dict[str, Any]:
    """What computed it."""
    from headwise import __version__

    weights = [p for p in model.module.parameters() if p.is_floating_point()]
    found: dict[str, Any] = {
        "dtype": str(weights[0].dtype).removeprefix("torch.") if weights else "unknown",
        "device": str(model.device),
        "headwise": __version__,
        "torch": str(torch.__version__),
    }
    with suppress(PackageNotFoundError):
        found["transformers"] = version("transformers")
    return found
