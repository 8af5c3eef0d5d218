"""Two halves of a corpus: one to choose heads on, one to tell of them.

Which half a text is in depends on the text alone, so a text that comes twice is not in both, and neither the
order of the texts nor the number of processes matters.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Int, UInt64
from torch import Tensor

from headwise.see.record import Side
from headwise.see.texts.batches import Batch

__all__ = ["HALVES", "halves_of", "marks_of"]

HALVES = ("choosing", "reporting")


def halves_of(batch: Batch) -> Int[np.ndarray, " row"]:
    """In which of the HALVES each row of the batch is; all pieces of a cut text are in one."""
    return (marks_of(batch) % 2).astype(np.int64)


def marks_of(batch: Batch) -> UInt64[np.ndarray, " row"]:
    """A number for each row that is the same for the same text (space around it aside), and for all its pieces."""
    digests = [blake2b(_content(batch, i), digest_size=8).digest() for i in range(batch.size)]
    return np.array([int.from_bytes(one, "little") for one in digests], dtype=np.uint64)


def _content(batch: Batch, i: int) -> bytes:
    """What tells row i from others: its texts, else its ids, else its numbers."""
    target = None if batch.targets is None else batch.targets[i]
    sides = [side for side in (batch.sources[i], target) if side is not None]
    told = "\0".join(map(_of_side, sides))
    if told.strip("\0"):
        return told.encode(errors="surrogatepass")
    return b"".join(_numbers(x, i) for x in batch.inputs.values())


def _of_side(side: Side) -> str:
    return side.text.strip() or " ".join(str(token.id) for token in side.tokens if token.id >= 0)


def _numbers(x: Any, i: int) -> bytes:
    if not isinstance(x, Tensor) or x.dim() == 0 or i >= x.shape[0]:
        return b""
    numbers: np.ndarray = x[i].detach().cpu().double().numpy()
    return numbers.tobytes()
