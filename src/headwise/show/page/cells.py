"""The pattern of one head as bytes: the cells that are kept, row by row, and the mean of the others by region.

`web/viewer/data/cells.js` reads them. Numbers of four bytes are little-endian; those of two stand as all low bytes,
then all high bytes, which deflates better. In order:

    queries, keys, cells, side, complete (uint32), pool_top, least (float32)
    cells of each row        [queries]  uint16
    their keys               [cells]    uint16, each as its distance from the one before it in its row
    their weights            [cells]    uint16, round(sqrt(w) * 2047): w to within .0005
    what rows hold besides   [queries]  uint16, like a weight; 65535: the row's weights are no numbers
    of that, on each of SETS [set, queries] uint16, like a weight; by words as what they have more than by tokens
                             (modulo 65536). Only where not all cells are kept
    pooled map of the rest   [side, side] uint8: mean weight of a cell not kept, round(sqrt(w / pool_top) * 255)

The whole is deflated (zlib).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["NONE", "ROOT", "Kept", "packed"]

ROOT = 2047

NONE = 65535
"""Stands for what is no number."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The cells of one pattern that are kept.

    Attributes:
        shape: queries, keys.
        count: cells kept of each row.
        key: their keys, rising within a row, row after row.
        weight: their weights.
        rest: what the row's other cells hold together; NaN where the row's weights are no numbers, none of which
            is kept.
        least: cells of at least this weight are kept; 0 = all that may be seen.
        mass: what the cells that are not kept hold, by region; None where all cells are kept.
        others: how many these are, by region.
        sets: which keys are in each of the sets that can be set apart (`apart.SETS`); None where all are kept.
        apart: what of the rest lies on them.
    """

    shape: tuple[int, int]
    count: Int[np.ndarray, " query"]
    key: Int[np.ndarray, " cell"]
    weight: Float[np.ndarray, " cell"]
    rest: Float[np.ndarray, " query"]
    least: float
    mass: Float[np.ndarray, "side side"] | None = None
    others: Int[np.ndarray, "side side"] | None = None
    sets: Bool[np.ndarray, "set key"] | None = None
    apart: Float[np.ndarray, "set query"] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        arrays = (self.count, self.key, self.weight, self.rest, self.mass, self.others)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def pool(self) -> Float[np.ndarray, "side side"] | None:
        """Mean weight of a cell that is not kept, by region."""
        if self.mass is None or self.others is None:
            return None
        mean: np.ndarray = self.mass / np.maximum(self.others, 1)
        return mean


def packed(kept: Kept) -> bytes:
    """The bytes of a pattern, deflated."""
    pool = kept.pool
    side = 0 if pool is None else pool.shape[0]
    top = 0.0 if pool is None or not pool.size else float(pool.max())
    numbers = [*kept.shape, len(kept.key), side, int(pool is None)]
    head = np.array(numbers, "<u4").tobytes() + np.array([top, kept.least], "<f4").tobytes()
    first = np.zeros(len(kept.key), bool)
    ends = np.cumsum(kept.count)
    first[(ends - kept.count)[kept.count > 0]] = True
    steps = np.diff(kept.key, prepend=0)
    steps[first] = kept.key[first]
    parts = [kept.count, steps, _roots(kept.weight), _roots(kept.rest)]
    if kept.apart is not None:
        first, separator, *words = (_roots(one) for one in kept.apart)
        parts += [first, separator, (words[0] - first) % 65536, (words[1] - separator) % 65536]
    body = head + b"".join(_planes(part) for part in parts)
    if pool is not None:
        share = np.sqrt(pool / top) if top > 0 else np.zeros_like(pool)
        body += np.rint(share * 255).astype(np.uint8).tobytes()
    return zlib.compress(body, 6)


def _roots(values: np.ndarray) -> np.ndarray:
    roots: np.ndarray = np.rint(np.sqrt(np.clip(values, 0, 1)) * ROOT)
    return np.where(np.isnan(roots), NONE, roots)


def _planes(values: np.ndarray) -> bytes:
    wide = values.astype("<u2").view(np.uint8).reshape(-1, 2)
    return wide[:, 0].tobytes() + wide[:, 1].tobytes()
