"""The feed of a causal language model: packed rows, and some that say a part of themselves again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers
import torch
from jaxtyping import Int

from headwise.names import ConfigError
from headwise.train.data.batch import IGNORED, Batch
from headwise.train.data.order import draws, random_of, shuffled
from headwise.train.data.packing import Packed, check_rows, pack, shared
from headwise.train.data.tokenizing import ENDS, Progress, encoded, special_id

__all__ = ["MOST_REPEATS", "CausalFeed", "causal_feed"]

MOST_REPEATS = 0.9
"""The largest share of rows that say a part of themselves again: nine for each row of the text."""


@dataclass(frozen=True, eq=False)
class CausalFeed:
    """From `causal_feed`.

    Attributes:
        packed: the text.
        rows: of a step.
        seed: of the order, and of what is repeated.
        repeated: how many rows of a pass say a part of themselves again.
    """

    packed: Packed
    rows: int
    seed: int
    repeated: int = 0

    @property
    def count(self) -> int:
        """Of rows that a pass has."""
        return self.packed.count + self.repeated

    @property
    def tokens(self) -> int:
        """Of the text, each counted once, the ends of documents too."""
        return len(self.packed.ids)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """The batch of a step, or some of its rows (`Feed`).

        Without `documents` where no row holds more than one, which lets attention take its fast causal way.
        """
        drawn = draws(step, self.rows, rows)
        where = [self._start(draw) for draw in drawn]
        ids, goals, documents, _ = self.packed.rows(np.array([start for start, _ in where]))
        for row, (_, again) in enumerate(where):
            if again:
                _repeat(ids[row], goals[row], documents[row], again)
        inputs = {"ids": torch.from_numpy(ids)}
        if shared(documents):
            inputs["documents"] = torch.from_numpy(documents)
        return Batch(inputs, torch.from_numpy(goals))

    def _start(self, draw: int) -> tuple[int, int]:
        """Where a row begins in the text, and how many of its tokens it says again."""
        number, at = divmod(draw, self.count)
        row = int(shuffled(self.count, self.seed, number)[at])
        context = self.packed.context
        if row < self.packed.count:
            return row * context, 0
        random = random_of(self.seed, 1, draw)
        again = int(random.integers(max(context // 8, 1), context // 2, endpoint=True))
        return int(random.integers(len(self.packed.ids) - context, endpoint=True)), again


def causal_feed(
    tokenizer: tokenizers.Tokenizer,
    documents: Sequence[str],
    context: int,
    rows: int,
    seed: int = 0,
    *,
    repeats: float = 0.0,
    end: str | None = None,
    short: bool = False,
    progress: Progress | None = None,
) -> CausalFeed:
    """Documents joined with the end token and cut into rows of `context` + 1 tokens, which see only their own.

    The end token stands before the first document too: each begins from it. Positions begin at 0 in each document,
    and in each row. Every token is a goal once in a pass, in rows shuffled anew for each; the last row is filled up
    with positions that do not count.

    Args:
        tokenizer: reads them.
        documents: a text each.
        context: tokens that the model reads in a row.
        rows: of a step.
        seed: of the order.
        repeats: share of the rows that are there besides, from which a head learns induction: a stretch of the text
            from anywhere, whose last n tokens stand there again (the second half says the first half again where n
            is half of the context). n is random, from an eighth of the context to half, so that a head that looks a
            fixed number of tokens back learns nothing from it. In these rows documents see each other; the goal of
            the last token before the repetition does not count.
        end: name of the end token; None = the first of the customary ones.
        short: take fewer tokens than a row too, for instance of held-out text.
        progress: told of characters done, and of all.

    Raises:
        TextError: fewer tokens than a row.
        ConfigError: no end token; a share, a context or a number of rows that cannot be.
    """
    check_rows(context, rows)
    if not 0 <= repeats <= MOST_REPEATS:
        raise ConfigError(f"repeats={repeats} is not a share from 0 to {MOST_REPEATS}")
    if repeats and context < 4:
        raise ConfigError(f"repeats={repeats} needs a context of 4 or more, came {context}")
    stop = special_id(tokenizer, ENDS if end is None else (end,), "that ends a text")
    packed = pack(encoded(tokenizer, documents, progress), context, stop, stop)
    if not short or repeats:
        check_rows(context, rows, len(packed.ids))
    return CausalFeed(packed, rows, seed, round(packed.count * repeats / (1 - repeats)))


def _repeat(
    ids: Int[np.ndarray, " position"],
    goals: Int[np.ndarray, " position"],
    documents: Int[np.ndarray, " position"],
    again: int,
) -> None:
    """Put the `again` tokens before the last `again` there once more, in place."""
    for line in (ids, goals):
        line[-again:] = line[-2 * again : -again].copy()
    goals[-again - 1] = IGNORED
    documents[:] = 0
