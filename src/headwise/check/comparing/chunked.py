"""In pieces of several tokens through the cache, against all at once."""

from __future__ import annotations

from headwise.check.comparing.sides import Draw, Locate
from headwise.check.comparing.through import through_cache
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome

__all__ = ["check_chunked"]


def check_chunked(
    subject: Subject, draw: Draw, *, causal: bool = True, locate: Locate | None = None
) -> list[Outcome]:
    """Whether reading in pieces of several tokens gives what reading at once gives.

    Args:
        subject: what is audited.
        draw: an input for each number.
        causal: whether the declared mask hides what comes later.
        locate: names the module in which both ways part.
    """
    words = "in pieces and at once"
    return through_cache("chunked", words, _pieces, subject, draw, causal=causal, locate=locate)


def _pieces(length: int, padding: int) -> list[int]:
    """Four pieces of different sizes where there is room, the first the largest, as a prompt is."""
    rest = length
    sizes: list[int] = []
    for share in (0.4, 0.25, 0.15):
        size = min(rest, max(2, round(share * length), 0 if sizes else padding + 1))
        sizes.append(size)
        rest -= size
    return [size for size in [*sizes, rest] if size]
