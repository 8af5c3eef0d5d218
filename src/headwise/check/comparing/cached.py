"""Token by token through the cache, against all at once."""

from __future__ import annotations

from headwise.check.comparing.sides import Draw, Locate
from headwise.check.comparing.through import through_cache
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome

__all__ = ["check_cached"]


def check_cached(
    subject: Subject, draw: Draw, *, causal: bool = True, locate: Locate | None = None
) -> list[Outcome]:
    """Whether reading token by token gives what reading at once gives.

    Args:
        subject: what is audited.
        draw: an input for each number.
        causal: whether the declared mask hides what comes later.
        locate: names the module in which both ways part.
    """
    words = "token by token and at once"
    return through_cache("cached", words, _one_by_one, subject, draw, causal=causal, locate=locate)


def _one_by_one(length: int, padding: int) -> list[int]:
    return [padding + 1] + [1] * (length - padding - 1)
