"""The output that an audit looks at, out of all that a model returns, and what it leaves aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from headwise.check.reading.given import Given

__all__ = ["aside", "picked"]

_NAMED = ("logits", "last_hidden_state", "hidden_states", "output", "out", "hidden", "y")


def picked(out: Any, given: Given) -> Any:
    """The tensor that has an output for each position: logits, hidden states, or the first of the right shape."""
    if isinstance(out, Tensor):
        return out
    held = out if isinstance(out, Mapping) else getattr(out, "__dict__", {})
    for name in _NAMED:
        value = held.get(name)
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    values = out if isinstance(out, tuple | list) else list(held.values())
    tensors = [x for x in values if isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 1]
    shape = (given.batch, given.length)
    fitting = [x for x in tensors if tuple(x.shape[:2]) in (shape, shape[::-1])]
    return next(iter(fitting or tensors), None)


def aside(out: Any, given: Given) -> tuple[str, list[str]]:
    """The name of what is picked, and the names of what else has an output for each position, patterns left out."""
    chosen = picked(out, given)
    parts = list(_parts(out))
    name = next((name for name, x in parts if x is chosen), "")
    left = [n for n, x in parts if n != name and any(_along(t, given) for t in _tensors(x))]
    return name, left


def _parts(out: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(out, tuple | list) and not isinstance(out, Mapping):
        yield from ((f"[{i}]", x) for i, x in enumerate(out))
    elif not isinstance(out, Tensor):
        yield from (out if isinstance(out, Mapping) else getattr(out, "__dict__", {})).items()


def _tensors(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _along(x: Any, given: Given) -> bool:
    """Whether it has an output for each position; a pattern has one for each pair of them."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2:
        return False
    both = (given.batch, given.length)
    pattern = x.dim() == 3 and x.shape[1] == x.shape[2]
    return tuple(x.shape[:2]) in (both, both[::-1]) and not pattern
