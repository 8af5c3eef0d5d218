"""The feed of a masked language model: rows in which some tokens are hidden, which it should name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers
import torch
from jaxtyping import Bool, Int

from headwise.hub.tokenizer import special_tokens
from headwise.names import ConfigError
from headwise.train.data.batch import IGNORED, Batch
from headwise.train.data.order import draws, random_of, shuffled
from headwise.train.data.packing import Packed, check_rows, pack, shared
from headwise.train.data.tokenizing import (
    BEGINS,
    ENDS,
    MASKS,
    Progress,
    encoded,
    known_id,
    special_id,
)

__all__ = ["MaskedFeed", "masked_feed"]

_HIDDEN, _RANDOM = 0.8, 0.1
"""Of the chosen tokens: how many are hidden, how many another token stands for; the others stay."""


@dataclass(frozen=True, eq=False)
class MaskedFeed:
    """From `masked_feed`.

    Attributes:
        packed: the text.
        rows: of a step.
        seed: of the order, and of what is hidden.
        share: of the tokens that are chosen.
        mask: id that hides.
        special: ids that are never chosen.
        words: ids that may stand for another.
    """

    packed: Packed
    rows: int
    seed: int
    share: float
    mask: int
    special: Int[np.ndarray, " id"]
    words: Int[np.ndarray, " word"]

    @property
    def count(self) -> int:
        """Of rows that a pass has."""
        return self.packed.count

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """The batch of a step, or some of its rows (`Feed`)."""
        drawn = draws(step, self.rows, rows)
        passes = [divmod(draw, self.count) for draw in drawn]
        numbers = [shuffled(self.count, self.seed, number)[at] for number, at in passes]
        ids, goals, documents, filling = self.packed.rows(np.array(numbers) * self.packed.context)
        can = ~np.isin(ids, self.special) & (filling == 0)
        for row, draw in enumerate(drawn):
            self._hide(ids[row], goals[row], can[row], random_of(self.seed, 2, draw))
        inputs = {"ids": torch.from_numpy(ids)}
        if shared(documents):
            inputs["documents"] = torch.from_numpy(documents)
        if filling.any():
            inputs["key_padding_mask"] = torch.from_numpy(filling.astype(bool))
        return Batch(inputs, torch.from_numpy(goals))

    def _hide(
        self,
        ids: Int[np.ndarray, " position"],
        goals: Int[np.ndarray, " position"],
        can: Bool[np.ndarray, " position"],
        random: np.random.Generator,
    ) -> None:
        """Choose tokens of a row and put what stands for them, in place."""
        places = np.flatnonzero(can)
        count = min(max(round(len(places) * self.share), 1), len(places))
        chosen = random.permutation(places)[:count]
        fate, other = random.random(count), random.choice(self.words, count)
        ids[chosen] = np.select(
            [fate < _HIDDEN, fate < _HIDDEN + _RANDOM], [self.mask, other], ids[chosen]
        )
        others = np.ones(len(goals), dtype=bool)
        others[chosen] = False
        goals[others] = IGNORED


def masked_feed(
    tokenizer: tokenizers.Tokenizer,
    documents: Sequence[str],
    context: int,
    rows: int,
    seed: int = 0,
    *,
    share: float = 0.15,
    mask: str | None = None,
    short: bool = False,
    progress: Progress | None = None,
) -> MaskedFeed:
    """Packed rows, in which BERT's rule hides tokens (Devlin et al. 2019, 3.1), anew each time a row comes.

    Of each row `share` of its tokens are chosen (rounded, at least one; never special tokens, nor those that only
    fill up the last row), without putting back. Of the chosen, each by its own chance, 80 % become the mask token,
    10 % a random token that is not special (it may be the same one), and 10 % stay; all of them are goals.

    Documents stand between the tokenizer's begin and end tokens, those of them that it has, and do not see each
    other; a document longer than a row goes on in the next one.

    Args:
        tokenizer: reads them.
        documents: a text each.
        context: tokens of a row.
        rows: of a step.
        seed: of the order and of what is hidden.
        share: of the tokens that are chosen.
        mask: name of the mask token; None = the first of the customary ones.
        short: take fewer tokens than a row too, for instance of held-out text.
        progress: told of characters done, and of all.

    Raises:
        TextError: fewer tokens than a row.
        ConfigError: no mask token; a share, a context or a number of rows that cannot be.
    """
    check_rows(context, rows)
    if not 0 < share < 1:
        raise ConfigError(f"share={share} is not a share of the tokens; use 0 < share < 1")
    hides = special_id(tokenizer, MASKS if mask is None else (mask,), "that hides another")
    special = np.array(sorted({*special_tokens(tokenizer), hides}), dtype=np.int64)
    words = np.setdiff1d(sorted(tokenizer.get_vocab(with_added_tokens=True).values()), special)
    begin, end = known_id(tokenizer, BEGINS), known_id(tokenizer, ENDS)
    ids = encoded(tokenizer, documents, progress)
    packed = pack(ids, context, begin, end, ahead=False)
    if not short:
        check_rows(context, rows, len(packed.ids))
    return MaskedFeed(packed, rows, seed, share, hides, special, words)
