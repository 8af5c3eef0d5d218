"""Where a forbidden influence enters: the first module, innermost, that gives it without having been given it.

A module is where it enters if what it read was the same at the positions in question and what it gave was not. From
the outermost module inwards: of the calls inside it, the first that gives something different decides. If that one
was given the same, the search goes on in it; if it was given something different already, the code between the
calls did it, and the module around is the answer. So attention written as a function is named by its module, and
by the module that makes use of it what comes in without positions (a mask, a pooled vector, a cache).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from headwise.check.places.tracing import Called, Trace, trace
from headwise.names import ShapeError

__all__ = ["Entry", "entry", "entry_by_gradient"]

Side = Literal["inputs", "outputs"]
Moved = Callable[[Called, Side], bool]


@dataclass(frozen=True)
class Entry:
    """A module: its path ("" = the traced one itself), and the name of its class."""

    module: str
    kind: str


def entry(
    a: Trace, b: Trace, at: Bool[Tensor, "batch position"], *, tolerance: float = 0.0
) -> Entry | None:
    """The first module, innermost, whose output differs between two runs where its input does not.

    Args:
        a: one run.
        b: another, of the same module at the same length; in pieces, if they were joined.
        at: the positions that must be the same in both.
        tolerance: what counts as the same, relative to the size of a position's values in `a`. Where nothing but
            the edit differs, 0 is right; else well below the influence, which norms make larger from layer to
            layer: seen late, it is named late.

    Returns:
        None where nothing differs there, or where the module was given something different from outside.

    Raises:
        ShapeError: runs of different lengths, or `at` of another shape.
    """
    if (a.batch, a.length) != (b.batch, b.length) or at.shape != (a.batch, a.length):
        raise ShapeError(
            f"runs of [{a.batch}, {a.length}] and [{b.batch}, {b.length}] at {list(at.shape)} positions; "
            "trace both at one length, and give a position for each"
        )
    others = {(call.path, call.occurrence): call for call in b.ended()}

    def moved(call: Called, side: Side) -> bool:
        other = others.get((call.path, call.occurrence))
        if other is None:
            return False
        pairs = _matched(getattr(call, side), getattr(other, side))
        return any(_differs(x, y, at, side, tolerance) for x, y in pairs)

    return _first(a.calls, moved)


def entry_by_gradient(
    module: nn.Module,
    call: Callable[[], object],
    source: Float[Tensor, "batch source d"],
    keys: Bool[Tensor, "batch source"],
    at: Bool[Tensor, "batch position"],
    *,
    tolerance: float = 0.0,
) -> Entry | None:
    """The same by gradients, for influences too small to be seen in values.

    Args:
        module: where to look.
        call: runs it on `source`, with gradients.
        source: requires a gradient; vectors at the input.
        keys: the positions of `source` that must not reach those of `at`.
        at: the positions that must not be reached.
        tolerance: what counts as no gradient, relative to the largest one to any position of `source`.

    Returns:
        None where no gradient leads from `at` to `keys`.

    Raises:
        ShapeError, ModelError: as `trace`; `source` without a gradient.
    """
    if not source.requires_grad or keys.shape != source.shape[:2]:
        raise ShapeError(
            f"source [batch, position, d] must require a gradient and keys be its positions, came "
            f"requires_grad={source.requires_grad}, {list(source.shape)} and {list(keys.shape)}"
        )
    batch, length = at.shape
    with torch.enable_grad():
        run = trace(module, call, length, batch, attached=True)

    def moved(called: Called, side: Side) -> bool:
        parts = [_picked(x, at, side) for x in getattr(called, side).values() if x.requires_grad]
        return bool(parts) and _reaches(parts, source, keys, tolerance)

    return _first(run.calls, moved)


def _first(calls: Sequence[Called], moved: Moved, around: Called | None = None) -> Entry | None:
    """The entry inside these calls, or the module around them."""
    found = next((call for call in _seen(calls) if _touched(call, moved)), None)
    if found is None or moved(found, "inputs"):
        return None if around is None else Entry(around.path, around.kind)
    return _first(found.inside, moved, found)


def _seen(calls: Sequence[Called]) -> Iterator[Called]:
    """The calls in order; one that gives nothing by position stands for itself and for what it calls."""
    for call in calls:
        yield call
        if not call.outputs:
            yield from _seen(call.inside)


def _touched(call: Called, moved: Moved) -> bool:
    return moved(call, "outputs") or (not call.outputs and moved(call, "inputs"))


def _matched(
    mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """What stands at the same place in both; of a tensor and a tuple, the first that fits."""
    pairs = [(x, theirs[place]) for place, x in mine.items() if place in theirs]
    pairs = [(x, y) for x, y in pairs if x.shape == y.shape]
    if pairs:
        return pairs
    fitting = ((x, y) for x in mine.values() for y in theirs.values() if x.shape == y.shape)
    return list(islice(fitting, 1))


def _picked(x: Shaped[Tensor, "batch position *rest"], at: Tensor, side: Side) -> Tensor:
    """What is at the positions, of scores what is between them.

    Scores that are masked only later may well differ in the columns of other positions, so those of an output are
    left out; what a module is given counts whole.
    """
    if x.dim() == 4 and side == "outputs":
        return x[at[:, :, None] & at[:, None, :]]
    return x[at]


def _differs(x: Tensor, y: Tensor, at: Tensor, side: Side, tolerance: float) -> bool:
    at = at.to(x.device)
    mine, theirs = _picked(x, at, side), _picked(y.to(x.device), at, side)
    apart = (mine != theirs) & ~(mine.isnan() & theirs.isnan())
    if tolerance == 0.0 or not x.is_floating_point() or not apart.any():
        return bool(apart.any())
    sizes = _sizes(x)[(..., *[None] * (x.dim() - 2))].expand(*x.shape[:-1], 1)
    least = tolerance * _picked(sizes, at, side)
    by = (mine - theirs).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    return bool((apart & (by > least)).any())


def _sizes(x: Shaped[Tensor, "batch position *rest"]) -> Float[Tensor, "batch position"]:
    """How large the values of each position are, or those of a usual position where its own are smaller.

    Not those of the whole tensor: the first token's may be a thousand times those of all others.
    """
    sizes = x.abs().where(x.isfinite(), 0.0).flatten(2).amax(2)
    return sizes.clamp_min(float(sizes.median()))


def _reaches(
    parts: list[Tensor], source: Tensor, keys: Bool[Tensor, "batch source"], tolerance: float
) -> bool:
    """Whether a random projection of these, which cannot cancel, has a gradient at the keys."""
    generator = torch.Generator().manual_seed(0)
    total = sum(
        (part * torch.randn(part.shape, generator=generator, dtype=part.dtype)).sum()
        for part in parts
    )
    if not isinstance(total, Tensor):
        return False
    (gradient,) = torch.autograd.grad(total, source, retain_graph=True, allow_unused=True)
    if gradient is None:
        return False
    largest = gradient.abs().max()
    there = gradient[keys].abs()
    return bool(there.isnan().any() or (there > tolerance * largest).any())
