"""The mode a module is in, and the module behind a compiled one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

__all__ = ["evaluating", "uncompiled"]

_LOCK = threading.Lock()
_HOLDERS: dict[int, int] = {}
"""By id of a part that goes back to training: how many `with` it is in. Each of them keeps the part alive."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In eval mode for the time of the `with`; each part goes back to the mode it was in.

    Where several hold a part at once, nested or in threads, it goes back when the last of them ends.
    """
    with _LOCK:
        held = [part for part in module.modules() if part.training or id(part) in _HOLDERS]
        for part in held:
            _HOLDERS[id(part)] = _HOLDERS.get(id(part), 0) + 1
        if any(part.training for part in held):
            module.eval()
    try:
        yield
    finally:
        with _LOCK:
            for part in held:
                _HOLDERS[id(part)] -= 1
                if not _HOLDERS[id(part)]:
                    del _HOLDERS[id(part)]
                    part.training = True


def uncompiled(module: Any) -> Any:
    """The module that torch.compile was given; another as it is."""
    return getattr(module, "_orig_mod", module)
