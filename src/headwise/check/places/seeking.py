"""Where in a model a forbidden influence enters: runs with an edit and without, compared inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.check.measuring.influence import Bench
from headwise.check.measuring.nudge import Nudge
from headwise.check.places.locating import Entry, entry, entry_by_gradient
from headwise.check.places.tracing import Trace, trace
from headwise.check.running.plan import Way
from headwise.check.running.subject import Subject
from headwise.names import HeadwiseError

__all__ = ["Sought", "place_of"]

_TOLERANCES = (1e-9, 0.0)


@dataclass(frozen=True, eq=False)
class Sought:
    """An influence whose place is sought.

    Attributes:
        query: which output is moved.
        key: by which position.
        forbidden: all pairs that must have no influence.
        draws: of the edits.
        by: "edit" or "gradient": what told it.
        opens: after how many layers a path from key to query is open, -1 never; None = nothing is known of layers.
    """

    query: int
    key: int
    forbidden: Bool[Tensor, "query key"]
    draws: Sequence[int]
    by: str
    opens: Int[Tensor, "query key"] | None = None


def place_of(bench: Bench, subject: Subject, way: Way, sought: Sought) -> Entry | None:
    """The first module whose output is moved where it must not be; None where it cannot be told.

    Where windows add up over the layers, it is sought layer by layer: what must not be moved there is more than in
    the end.
    """
    if subject.module is None:
        return None
    try:
        found = None if sought.by == "gradient" else _by_edit(bench, subject, way, sought)
        return found or _by_gradient(bench, subject, way, sought)
    except HeadwiseError:  # nothing inside has positions, or two sizes are alike
        return None


def _by_edit(bench: Bench, subject: Subject, way: Way, sought: Sought) -> Entry | None:
    edit = (sought.key, bench.strongest(sought.query, sought.key, sought.draws))
    within = _in_encoder(bench, subject, way, edit)
    if within is not None:
        return within
    for copies in dict.fromkeys((1, bench.copies)):  # what needs a batch shows in one
        length = bench.given.length
        still, moved = (_traced(bench, subject, way, e, length, copies) for e in (None, edit))
        for layer, forbidden in _by_layer(sought):
            one = bench.at(forbidden[:, sought.key])
            at = torch.cat([one, torch.zeros_like(one).repeat(copies - 1, 1)])
            for tolerance in _TOLERANCES:
                found = entry(still, moved, at, tolerance=tolerance)
                if found is not None and layer in (None, _layer(found.module)):
                    return found
    return None


def _in_encoder(bench: Bench, subject: Subject, way: Way, edit: tuple[int, int]) -> Entry | None:
    """The first module that moves a real position of the encoder's text by its padding; None where none does."""
    source, real = bench.given.source, bench.given.source_real
    if not bench.of_source or source is None or real is None:
        return None
    length = source.shape[1]
    if length == bench.given.length:
        return None
    at = torch.zeros_like(real)
    at[bench.row] = real[bench.row]
    still, moved = (_traced(bench, subject, way, e, length) for e in (None, edit))
    found = (entry(still, moved, at, tolerance=tolerance) for tolerance in _TOLERANCES)
    return next((one for one in found if one is not None), None)


def _by_layer(sought: Sought) -> list[tuple[int | None, Tensor]]:
    """What must not be moved in each layer, then in the end."""
    whole: list[tuple[int | None, Tensor]] = [(None, sought.forbidden)]
    if sought.opens is None:
        return whole
    opens, last = sought.opens, int(sought.opens.max())
    return [(i, (opens < 0) | (opens > i + 1)) for i in range(last)] + whole


def _layer(path: str) -> int | None:
    """The layer that a path names: its first number."""
    numbers = [part for part in path.split(".") if part.isdecimal()]
    return int(numbers[0]) if numbers else None


def _traced(
    bench: Bench,
    subject: Subject,
    way: Way,
    edit: tuple[int, int] | None,
    length: int,
    copies: int = 1,
) -> Trace:
    copy = subject.fresh()
    assert copy.module is not None
    run = way.runs(copy, fresh=False)
    given = bench.edited([edit, *[None] * (copies - 1)])
    return trace(copy.module, lambda: run(given, None), length, given.batch)


def _by_gradient(bench: Bench, subject: Subject, way: Way, sought: Sought) -> Entry | None:
    gradient = bench.gradient(sought.query)
    copy = subject.fresh()
    if gradient is None or copy.module is None:
        return None
    rows, length = bench.given.batch, bench.base.shape[0]
    place = torch.zeros(
        rows, length, gradient.shape[-1], dtype=subject.dtype, device=subject.device
    ).requires_grad_()
    keys = torch.zeros(rows, length, dtype=torch.bool)
    keys[bench.row, sought.key] = True
    run = way.runs(copy, fresh=False)
    nudge = Nudge(gradient=True, source=bench.of_source, place=place)
    at = bench.at(sought.forbidden[:, sought.key])
    return entry_by_gradient(copy.module, lambda: run(bench.given, nudge), place, keys, at)
