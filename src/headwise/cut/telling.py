"""How far a long verb is, told on stderr: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from headwise.hub.report import say

__all__ = ["Progress", "lines"]

Progress = Callable[[int, int, str], None]
"""progress(done, in all, what is under way or how it stands)."""

_EVERY = 10.0
"""Seconds between two lines."""


def lines(call: str, *, quiet: bool) -> Progress:
    """Progress as lines on stderr, one every ten seconds; none where `quiet`.

    Args:
        call: the verb, which the lines name.
    """
    last = time.monotonic()

    def progress(done: int, total: int, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if not quiet and now - last >= _EVERY:
            last = now
            say(f"{call}: {done} of {total}, {what}", quiet=False)

    return progress
