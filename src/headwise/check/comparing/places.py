"""Where two ways to run part: what both read and gave inside, cropped to the positions that are compared."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from headwise.check.comparing.sides import Side, Sides
from headwise.check.places.locating import entry
from headwise.check.places.tracing import Called, Trace, trace
from headwise.names import HeadwiseError

__all__ = ["place_between"]


def place_between(sides: Sides) -> tuple[str, str] | None:
    """The path and class of the first module in which two ways to run part; None where it cannot be told."""
    rows, length = sides.at.shape
    try:
        one, other = (_cropped(side, rows, length) for side in (sides.one, sides.other))
        found = entry(one, other, sides.at, tolerance=sides.tolerance)
    except HeadwiseError:  # nothing inside has positions, or two sizes are alike
        return None
    return None if found is None else (found.module, found.kind)


def _cropped(side: Side, rows: int, length: int) -> Trace:
    """What one way reads and gives, of the rows and positions that are compared."""
    module = side.subject.module
    if module is None:
        raise HeadwiseError("a function has no modules")
    whole = sum(side.pieces)
    batch = rows if side.batch is None else side.batch
    found = trace(module, side.call, whole, batch, side.pieces if len(side.pieces) > 1 else None)
    return Trace(tuple(_crop(call, side, length) for call in found.calls), length, rows)


def _crop(call: Called, side: Side, length: int) -> Called:
    def crop(x: Tensor) -> Tensor:
        """[row, position, rest], or scores [row, query, key, rest]."""
        x = x if side.row is None else x[side.row : side.row + 1]
        places = slice(side.start, side.start + length)
        return x[:, places, places] if x.dim() == 4 else x[:, places]

    return replace(
        call,
        inputs={name: crop(x) for name, x in call.inputs.items()},
        outputs={name: crop(x) for name, x in call.outputs.items()},
        inside=tuple(_crop(one, side, length) for one in call.inside),
    )
