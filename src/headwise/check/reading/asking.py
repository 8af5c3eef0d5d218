"""The arguments of an audit, checked before anything runs: one line each for what cannot be meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from torch import Tensor

from headwise.check.reading.given import SHORTEST
from headwise.check.telling.report import DIMENSIONS
from headwise.core import notation
from headwise.core.masks import Mask
from headwise.names import ConfigError, HeadwiseError, MaskError, ShapeError

__all__ = ["dimensions_of", "length_of", "mask_of", "picks", "whole"]


def dimensions_of(dimensions: Any) -> list[str]:
    """The dimensions asked for, in their order; one name alone is a list of one.

    Raises:
        ConfigError: no such dimension, or none.
    """
    if dimensions is None:
        return list(DIMENSIONS)
    if not isinstance(dimensions, Iterable):
        raise ConfigError(
            f"dimensions must be names out of {', '.join(DIMENSIONS)}, came {dimensions!r}"
        )
    names = [dimensions] if isinstance(dimensions, str) else list(dimensions)
    wrong = [name for name in names if name not in DIMENSIONS]
    if wrong or not names:
        raise ConfigError(
            f"there is no dimension {', '.join(map(repr, wrong)) or 'in an empty list'}; "
            f"there are {', '.join(DIMENSIONS)}"
        )
    return [name for name in DIMENSIONS if name in names]


def whole(name: str, value: Any, least: int, error: type[HeadwiseError] = ConfigError) -> int:
    """A whole number that is not below `least`.

    Raises:
        ConfigError: it is none; or the error that is passed.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise error(f"{name} must be a whole number of at least {least}, came {value!r}")
    return number


def length_of(length: Any) -> int | None:
    """How many positions are drawn; None where nobody says.

    Raises:
        ShapeError: no whole number, or too few to tell earlier from later.
    """
    return None if length is None else whole("length", length, SHORTEST, ShapeError)


def mask_of(mask: Any) -> Mask | list[Mask] | None:
    """What one layer may see: a mask, its text, or a list with one for each layer.

    Raises:
        MaskError: something else, or a text that cannot be read.
    """
    if mask is None or isinstance(mask, Mask):
        return mask
    if isinstance(mask, str):
        return notation.read(mask)
    if isinstance(mask, Tensor):
        raise MaskError(
            f"mask must be a mask, came a tensor {list(mask.shape)}; "
            "pass masks.tensor(allowed), where True = may attend"
        )
    listed = [mask_of(one) for one in mask] if isinstance(mask, Sequence) else []
    if not listed or not all(isinstance(one, Mask) for one in listed):
        came = "an empty list" if isinstance(mask, Sequence) and not listed else repr(mask)
        raise MaskError(
            'mask must be a mask, text such as "causal & window(4)", or a list of these with one for each '
            f"layer, came {came}"
        )
    return [one for one in listed if isinstance(one, Mask)]


def picks(output: Any) -> None:
    """What picks the output is None or can be called.

    Raises:
        ConfigError: it is neither.
    """
    if output is not None and not callable(output):
        raise ConfigError(
            "output must be a function of what the model returns, such as lambda out: out.logits, came "
            f"{output!r}"
        )
