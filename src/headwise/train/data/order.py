"""Which row comes when: every one once in a pass, shuffled anew for each."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int

from headwise.names import ConfigError

__all__ = ["draws", "random_of", "shuffled"]

_Numbers = Int[np.ndarray, " number"]


def draws(step: int, rows: int, part: slice | None = None) -> range:
    """The draws of a step, counted from 0 over all steps before it.

    Args:
        step: 1, 2, ...
        rows: of a step.
        part: which of them; None = all.

    Raises:
        ConfigError: a step below 1.
    """
    if step < 1:
        raise ConfigError(f"step={step} is none; steps count from 1")
    whole = range((step - 1) * rows, step * rows)
    return whole if part is None else whole[part]


@lru_cache(maxsize=4)
def shuffled(count: int, seed: int, number: int) -> _Numbers:
    """The order of the rows in pass `number`, 0 for the first."""
    order = random_of(seed, 0, number).permutation(count)
    order.flags.writeable = False
    return order


def random_of(*key: int) -> np.random.Generator:
    """Random numbers that these numbers name, and nothing else does."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
