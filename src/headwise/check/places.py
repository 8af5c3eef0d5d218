"""Where in a model a forbidden influence enters: runs with an edit and without, compared inside."""

from __future__ import annotations

from headwise.check.influence import Bench
from headwise.check.locating import Entry, entry
from headwise.check.plan import Way
from headwise.check.subject import Subject
from headwise.check.tracing import Trace, trace

__all__ = ["place_of"]

_TOLERANCES = (1e-9, 0.0)


def place_of(
    bench: Bench, subject: Subject, way: Way, query: int, key: int, draws: int
) -> Entry | None:
    """The first module whose output at a query is moved by an edit at a key; None where it cannot be told."""
    if subject.module is None:
        return None
    length = max(bench.given.length, bench.base.shape[0])
    at = bench.at(query)
    still = _traced(bench, subject, way, None, length)
    draw = max(range(draws), key=lambda d: float(bench.change(key, d)[query].abs().max()))
    moved = _traced(bench, subject, way, (key, draw), length)
    for tolerance in _TOLERANCES:
        found = entry(still, moved, at, tolerance=tolerance)
        if found is not None:
            return found
    return None


def _traced(
    bench: Bench, subject: Subject, way: Way, edit: tuple[int, int] | None, length: int
) -> Trace:
    copy = subject.fresh()
    assert copy.module is not None
    given = bench.given if edit is None else bench.edited([edit])
    run = way.runs(copy, fresh=False)
    return trace(copy.module, lambda: run(given, None), bench.given.length, bench.given.batch)
