"""The feed of an encoder-decoder: pairs of about one length at a time, padded on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import tokenizers
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.names import TextError
from headwise.train.data.batch import IGNORED, Batch
from headwise.train.data.order import draws, random_of, shuffled
from headwise.train.data.packing import check_rows
from headwise.train.data.pairs_read import Pair
from headwise.train.data.tokenizing import ENDS, Progress, encoded, special_id

__all__ = ["PairsFeed", "pairs_feed"]

_WINDOW = 64
"""How many steps' pairs are put in order of their lengths at a time."""

_Ids = Int[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class PairsFeed:
    """From `pairs_feed`.

    Attributes:
        sources: ids of each, with the end.
        targets: ids of each, with what begins and ends it.
        rows: of a step.
        seed: of the order.
        padding: id that fills up.
        left_out: how many pairs were too long.
    """

    sources: tuple[_Ids, ...] = field(repr=False)
    targets: tuple[_Ids, ...] = field(repr=False)
    rows: int
    seed: int
    padding: int
    left_out: int

    @property
    def start(self) -> int:
        """The id that every target begins with."""
        return int(self.targets[0][0])

    @property
    def count(self) -> int:
        """Of pairs that a pass has."""
        return len(self.sources)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """The batch of a step, or some of its rows (`Feed`)."""
        passes = [divmod(draw, self.count) for draw in draws(step, self.rows, rows)]
        numbers = [int(self._order(number)[at]) for number, at in passes]
        source, source_padding = self._padded([self.sources[n] for n in numbers])
        target, target_padding = self._padded([self.targets[n][:-1] for n in numbers])
        goal, _ = self._padded([self.targets[n][1:] for n in numbers])
        inputs = {"source_ids": source, "target_ids": target}
        if source_padding.any():
            inputs["source_padding_mask"] = source_padding
        if target_padding.any():
            inputs["target_padding_mask"] = target_padding
        return Batch(inputs, torch.where(target_padding, IGNORED, goal))

    def _order(self, number: int) -> _Ids:
        return _grouped(self, number)

    def _padded(self, rows: Sequence[_Ids]) -> tuple[Tensor, Tensor]:
        """Rows as one tensor, and where it is padding."""
        lengths = torch.tensor([len(row) for row in rows])
        ids = pad_sequence(
            [torch.from_numpy(row.astype(np.int64)) for row in rows],
            batch_first=True,
            padding_value=self.padding,
        )
        return ids, torch.arange(ids.shape[1]) >= lengths[:, None]


@lru_cache(maxsize=4)
def _grouped(feed: PairsFeed, number: int) -> _Ids:
    """The order of pass `number`: shuffled, in each window put in order of length, its steps shuffled again.

    The first group fills up the step in which the pass before ended.
    """
    rows, order = feed.rows, shuffled(feed.count, feed.seed, number)
    random = random_of(feed.seed, 4, number)
    begun = -number * feed.count % rows
    parts = [order[:begun]]
    for start in range(begun, len(order), _WINDOW * rows):
        window = order[start : start + _WINDOW * rows]
        lengths = [(len(feed.targets[n]), len(feed.sources[n])) for n in window]
        window = window[sorted(range(len(window)), key=lengths.__getitem__)]
        whole = len(window) // rows
        parts += [window[at * rows : (at + 1) * rows] for at in random.permutation(whole)]
        parts.append(window[whole * rows :])
    return np.concatenate(parts)


def pairs_feed(
    tokenizer: tokenizers.Tokenizer,
    pairs: Sequence[Pair],
    rows: int,
    seed: int = 0,
    *,
    longest: int = 256,
    begin: str | None = None,
    end: str | None = None,
    progress: Progress | None = None,
) -> PairsFeed:
    """Each source with the end token behind it, and each target between the begin and the end token.

    A pass says every pair once. It is shuffled, and pairs of about one length (of the target, then of the source)
    come together, so that a batch holds little padding: 64 steps' pairs are put in order at a time, and those
    steps shuffled.

    Args:
        tokenizer: reads both sides.
        pairs: sources and targets.
        rows: of a step.
        seed: of the order.
        longest: most tokens of a side, special ones included; longer pairs are left out (`PairsFeed.left_out`).
        begin: name of the token that begins a target; None = the end token, as in BART.
        end: name of the end token; None = the first of the customary ones.
        progress: told of characters done, and of all.

    Raises:
        TextError: no pair, or all of them too long.
        ConfigError: no such token; a length or a number of rows that cannot be.
    """
    check_rows(longest, rows)
    if not pairs:
        raise TextError("there is no pair; give some")
    stop = special_id(tokenizer, ENDS if end is None else (end,), "that ends a text")
    start = stop if begin is None else special_id(tokenizer, (begin,), "that begins a target")
    texts = encoded(tokenizer, [text for pair in pairs for text in pair], progress)
    both = [
        (np.array([*source, stop], np.int32), np.array([start, *target, stop], np.int32))
        for source, target in zip(texts[::2], texts[1::2], strict=True)
    ]
    fitting = [pair for pair in both if max(map(len, pair)) <= longest]
    if not fitting:
        raise TextError(
            f"all {len(both):,} pairs are longer than longest={longest} tokens; the shortest has "
            f"{min(max(map(len, pair)) for pair in both)}"
        )
    sources, targets = zip(*fitting, strict=True)
    return PairsFeed(sources, targets, rows, seed, stop, len(both) - len(fitting))
