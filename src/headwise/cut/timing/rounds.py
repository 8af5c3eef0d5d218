"""Rounds: several things measured in turns, so that what a machine does meanwhile meets all of them alike."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["interleaved"]


def interleaved(
    measures: Sequence[Callable[[], float]], rounds: int, seed: int = 0
) -> list[list[float]]:
    """What each measure gives, round by round; a round takes each once, in random order.

    Each is taken once before, which does not count, and no garbage is collected between two.
    """
    times: list[list[float]] = [[] for _ in measures]
    order, shuffle = list(range(len(measures))), random.Random(seed).shuffle
    for measure in measures:
        measure()
    with _no_collecting():
        for _ in range(rounds):
            shuffle(order)
            for i in order:
                times[i].append(measures[i]())
    return times


@contextmanager
def _no_collecting() -> Iterator[None]:
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
