"""Keys that a view can set apart: the first token and the separators, by tokens and by words."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Bool

from headwise.see.record import LayerRecord, Side
from headwise.show.page.sides import separators

__all__ = ["SETS", "apart_keys"]

SETS = ("first token", "separators", "first word", "words that are separators")


def apart_keys(layer: LayerRecord) -> Bool[np.ndarray, "set key"]:
    """Which keys are in each of SETS; of a text that another one looks at the first is like others."""
    return _keys_of(layer.keys, not layer.own_text)


@lru_cache(maxsize=8)
def _keys_of(side: Side, cross: bool) -> np.ndarray:
    found = np.zeros((len(SETS), len(side.tokens)), dtype=bool)
    found[1, separators(side)] = True
    for at, word in enumerate(side.words):
        own = slice(word.first, word.last)
        if at == 0 and not cross:
            found[0, 0] = found[2, own] = True
            found[1, 0] = False
        else:
            found[3, own] = found[1, own].all()
    return found
