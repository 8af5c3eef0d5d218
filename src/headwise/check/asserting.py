"""The audit as one line of a test suite: it passes where a model is clean, and else says what it sees.

from headwise import assert_no_leak

def test_my_model_sees_no_future():
    assert_no_leak(MyModel())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwise.check.auditing import audit
from headwise.check.telling.report import Audit, Outcome
from headwise.core.masks import Mask

__all__ = ["assert_no_leak"]

_PAIRS = 5


def assert_no_leak(
    model: Any, mask: Mask | Sequence[Mask] | None = None, **arguments: Any
) -> Audit:
    """Audit a model, and raise where it is not clean; what could not be told is not clean.

    Args:
        model: as `audit` takes it.
        mask: what may be seen in one layer, or several for layers in turn; None = what the model declares.
        arguments: the others of `audit`.

    Returns:
        The audit.

    Raises:
        AssertionError: a leak, two ways to run that do not agree, or what could not be told, a line for each.
        HeadwiseError: as `audit`.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    found = audit(model, mask, **arguments)
    if not found.clean:
        raise AssertionError(_lines(found))
    return found


def _lines(found: Audit) -> str:
    """What is wrong, a line each, with where it enters, who sees whom, and advice below."""
    head, *_ = str(found).splitlines()
    lines = [head]
    for outcome in (*found.leaks, *found.unknown):
        lines.append(f"  {outcome.title}: {outcome.verdict}: {outcome.says}")
        lines += [f"    {line}" for line in _below(outcome)]
    if len(lines) == 1:
        lines += [f"  {o.title}: {o.verdict}: {o.says}" for o in found.outcomes]
        lines.append("  nothing was checked, so nothing is known to be clean")
    return "\n".join(lines)


def _below(outcome: Outcome) -> list[str]:
    told = []
    if outcome.place:
        told.append(f"enters in {outcome.place}, strength {outcome.strength:.2g}")
    elif outcome.bad:
        told.append(f"strength {outcome.strength:.2g}")
    pairs = [
        f"{query} sees {key}" if outcome.verdict == "leak" else str(query)
        for query, key in outcome.pairs[:_PAIRS]
    ]
    if pairs:
        which = "positions: " if outcome.verdict == "leak" else "differs at positions "
        more = ", ..." if len(outcome.pairs) > len(pairs) else ""  # `says` tells how many there are
        told.append(f"{which}{', '.join(pairs)}{more}")
    return [*told, outcome.advice] if outcome.advice else told
