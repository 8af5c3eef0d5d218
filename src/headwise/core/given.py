"""What masks are given, checked: other masks, booleans, whole numbers."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from headwise.names import MaskError

__all__ = ["count", "require_bool", "require_mask", "whole_numbers"]

_MOST = 2**31
"""No window or prefix is longer than this."""


def require_mask(other: object, kind: type, sign: str) -> None:
    """Refuse to join a mask with what is none."""
    if not isinstance(other, kind):
        hint = "; wrap a boolean tensor as masks.tensor(x)" if isinstance(other, Tensor) else ""
        raise MaskError(f"a mask {sign} takes another mask, came {type(other).__name__}{hint}")


def require_bool(x: object, what: str, hint: str) -> None:
    """Refuse what is no boolean tensor."""
    if not isinstance(x, Tensor):
        raise MaskError(f"{what} must be a boolean tensor, came {type(x).__name__}")
    if x.dtype is not torch.bool:
        raise MaskError(
            f"{what} must be boolean, came {str(x.dtype).removeprefix('torch.')}; {hint}"
        )


def count(what: str, n: SupportsIndex, at_least: int) -> int:
    """n as an int (numpy's whole numbers too), checked."""
    whole = isinstance(n, SupportsIndex) and not isinstance(n, bool | Tensor)
    if not whole or not at_least <= index(n) <= _MOST:
        raise MaskError(
            f"{what} takes a whole number of at least {at_least} (at most {_MOST}), came {n!r}"
        )
    return index(n)


def whole_numbers(x: object, what: str, dims: int | None) -> Tensor:
    """x as an int64 tensor; [position] becomes [1, position] where dims is None."""
    try:
        numbers = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise MaskError(f"{what} takes whole numbers, came {x!r}") from error
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype is torch.bool:
        raise MaskError(
            f"{what} takes whole numbers, came {str(numbers.dtype).removeprefix('torch.')}"
        )
    if dims is None and numbers.dim() == 1:
        numbers = numbers[None]
    if numbers.dim() != (dims or 2):
        wanted = "[batch]" if dims else "[position] or [batch, position]"
        raise MaskError(f"{what} takes {wanted}, came {list(numbers.shape)}")
    on_cpu = numbers.device.type == "cpu"  # elsewhere looking at the numbers would stop the device
    if dims and on_cpu and bool((numbers < 0).any()):
        raise MaskError(f"{what} takes numbers of at least 0, came {numbers.tolist()}")
    return numbers.long()
