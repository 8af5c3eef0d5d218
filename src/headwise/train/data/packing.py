"""Documents one after the other in rows of equal length, where none sees another.

In front of each document stands a token that begins it, so a document of n tokens is n + 1 positions, each of which
has a goal: its tokens and the end. Where the same token begins and ends, as GPT-2's does, the documents joined with
it and cut into rows of `context` + 1 tokens are exactly that: the last token of a row is the first of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from headwise.names import ConfigError, TextError
from headwise.train.data.batch import IGNORED

__all__ = ["Packed", "check_rows", "pack", "shared"]

Ids = Int[np.ndarray, " _"]
Rows = Int[np.ndarray, "_ _"]


@dataclass(frozen=True, eq=False)
class Packed:
    """All documents in one line, cut into rows of `context`; the last row may be shorter.

    Attributes:
        ids: every token.
        goals: what each should predict.
        documents: number of the document that each belongs to.
        context: positions of a row.
        filling: the token that fills up the last row, without goals.
    """

    ids: Ids
    goals: Ids
    documents: Ids
    context: int
    filling: int

    @property
    def count(self) -> int:
        """Of rows."""
        return -(-len(self.ids) // self.context)

    def rows(self, starts: Ids) -> tuple[Rows, Rows, Rows, Rows]:
        """The rows that begin there: ids, goals, documents, and which positions only fill up (1, else 0)."""
        at = starts[:, None] + np.arange(self.context)
        filling = at >= len(self.ids)
        at = np.where(filling, len(self.ids) - 1, at)
        return (
            np.where(filling, self.filling, self.ids[at]).astype(np.int64),
            np.where(filling, IGNORED, self.goals[at]).astype(np.int64),
            self.documents[at].astype(np.int64),
            filling.astype(np.int64),
        )


def pack(
    documents: Iterable[Sequence[int] | Ids],
    context: int,
    begin: int | None,
    end: int | None,
    *,
    ahead: bool = True,
    filling: int | None = None,
) -> Packed:
    """Put documents in a line.

    Args:
        documents: ids of each, without special tokens.
        context: positions of a row.
        begin: stands before each; None = nothing.
        end: the goal of its last position where `ahead`, else stands after each; None = nothing.
        ahead: goals are the next tokens; else the tokens themselves.
        filling: fills up the last row; None = `end`.
    """
    first = np.array([] if begin is None else [begin], dtype=np.int32)
    last = np.array([] if end is None else [end], dtype=np.int32)
    lines = [np.concatenate((first, np.asarray(one, dtype=np.int32), last)) for one in documents]
    if ahead:
        ids, goals = [line[:-1] for line in lines], [line[1:] for line in lines]
    else:
        ids = goals = lines
    numbers = np.repeat(np.arange(len(ids), dtype=np.int32), [len(one) for one in ids])
    if not len(numbers):
        raise TextError("the texts hold no token; give more text")
    fill = filling if filling is not None else end if end is not None else 0
    joined = np.concatenate(ids)
    return Packed(joined, np.concatenate(goals) if ahead else joined, numbers, context, fill)


def check_rows(context: int, rows: int, tokens: int | None = None) -> None:
    """Refuse a context or a number of rows that cannot be, and fewer tokens than a row where they are given."""
    for name, value in (("context", context), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r} is not a count; use a whole number of 1 or more")
    if tokens is not None and tokens < context:
        raise TextError(
            f"the texts are {tokens:,} tokens, fewer than one row of context={context:,}; "
            "give more text or a smaller context"
        )


def shared(documents: Rows) -> bool:
    """Whether a row holds more than one document."""
    return bool((documents[:, 1:] != documents[:, :-1]).any())
