"""The scores of heads row by row, as they come in: what means, errors and halves are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from jaxtyping import Float, Int, UInt64

from headwise.see.profile.halves import marks_of
from headwise.see.texts.batches import Batch

__all__ = ["Measure", "Measured", "RowScores", "Scored"]


@dataclass(frozen=True, eq=False)
class Measured:
    """A batch's scores: of each row the sum over its losses; NaN where a head was not reached.

    Attributes:
        scores: in the order of the census' heads.
        losses: the summed loss of each row, with all heads.
        counts: how many losses that is.
        whole: whether every head was reached.
    """

    scores: Float[np.ndarray, "row head"]
    losses: Float[np.ndarray, " row"]
    counts: Int[np.ndarray, " row"]
    whole: bool = True


Measure = Callable[[Batch], Measured]


@dataclass(frozen=True, eq=False)
class RowScores:
    """All rows so far: as `Measured`, and a mark for each, the same for copies and pieces of one text."""

    scores: Float[np.ndarray, "row head"]
    losses: Float[np.ndarray, " row"]
    counts: Int[np.ndarray, " row"]
    marks: UInt64[np.ndarray, " row"]


class Scored:
    """Batches on their way into scores (`see.profile.running.Sums`).

    Args:
        heads: how many heads there are.
        measure: gives the scores of a batch.

    Attributes:
        stopped: whether it was interrupted; what was done before is kept.
    """

    def __init__(self, heads: int, measure: Measure | None = None) -> None:
        self.texts = self.tokens = 0
        self.stopped = False
        self._heads, self._measure = heads, measure
        self._rows: list[dict[str, np.ndarray]] = []

    def add(self, batch: Batch) -> None:
        """Measure a batch; an interrupt (Ctrl-C) leaves out what was not reached."""
        assert self._measure is not None
        try:
            found = self._measure(batch)
        except KeyboardInterrupt:
            self.stopped = True
            return
        self.stopped = not found.whole
        rows = {name: getattr(found, name) for name in ("scores", "losses", "counts")}
        self._rows.append({**rows, "marks": _marks(batch, len(found.counts))})
        self.texts += batch.size if batch.begun is None else batch.begun
        self.tokens += batch.tokens or 0

    def state(self) -> dict[str, np.ndarray | str]:
        """What there is so far, as arrays."""
        numbers = np.array([self.texts, self.tokens, self.stopped])
        rows = self.rows
        held = {name: getattr(rows, name) for name in ("scores", "losses", "counts", "marks")}
        return {**held, "numbers": numbers}

    def merge(self, other_state: Mapping[str, np.ndarray | str]) -> None:
        """Add what another process measured."""
        held = {name: np.asarray(value) for name, value in other_state.items()}
        texts, tokens, stopped = held.pop("numbers").tolist()
        self.texts, self.tokens = self.texts + texts, self.tokens + tokens
        self.stopped = self.stopped or bool(stopped)
        self._rows.append(held)

    @property
    def rows(self) -> RowScores:
        """All rows so far."""
        empty = {
            "scores": np.zeros((0, self._heads)),
            "losses": np.zeros(0),
            "counts": np.zeros(0, dtype=np.int64),
            "marks": np.zeros(0, dtype=np.uint64),
        }
        held = {
            name: np.concatenate([none, *(rows[name] for rows in self._rows)])
            for name, none in empty.items()
        }
        return RowScores(**held)


def _marks(batch: Batch, rows: int) -> UInt64[np.ndarray, " row"]:
    """A mark for each row of the loss; where the whole batch has one loss, one of all its texts."""
    marks = marks_of(batch)
    if rows == batch.size:
        return marks
    digests = [blake2b(marks.tobytes() + bytes([i]), digest_size=8).digest() for i in range(rows)]
    return np.array([int.from_bytes(one, "little") for one in digests], dtype=np.uint64)
