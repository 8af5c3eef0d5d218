"""Translations of held-out messages, by a model and by what needs none, scored by chrF against the real ones.

chrF (Popovic 2015) as sacrebleu computes it: F2 of character n-grams up to 6, of all messages together, with a 95 %
interval of 1,000 resamplings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from sacrebleu.metrics import CHRF
from scipy.sparse import csr_matrix
from torch.nn.utils.rnn import pad_sequence

import headwise as hw
from headwise.train.data import encoded
from headwise.train.data.pairs_read import Pair

_ROWS = 64


def translations(model: hw.Model, sources: Sequence[str], longest: int) -> list[str]:
    """What the model writes for each, the likeliest token each time."""
    end = model.tokenizer.token_to_id("<|endoftext|>")
    ids = [torch.tensor([*map(int, one), end]) for one in encoded(model.tokenizer, sources)]
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    made = [""] * len(ids)
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        source = pad_sequence([ids[at] for at in rows], batch_first=True, padding_value=end)
        lengths = torch.tensor([len(ids[at]) for at in rows])
        written = hw.nn.generate(
            model.module,
            torch.full((len(rows), 1), end),
            longest,
            source_ids=source,
            memory_padding_mask=torch.arange(source.shape[1]) >= lengths[:, None],
            ends=[end],
        )
        for at, row in zip(rows, written[:, 1:].tolist(), strict=True):
            whole = row[: row.index(end)] if end in row else row
            made[at] = model.tokenizer.decode(whole)
    return made


def without_model(kept: Sequence[Pair], sources: Sequence[str]) -> dict[str, list[str]]:
    """What a model should beat: the source as it stands, one translation for all, that of the nearest source."""
    commonest = Counter(target for _, target in kept).most_common(1)[0][0]
    return {
        "the source, copied": list(sources),
        f"the commonest translation, {commonest}": [commonest] * len(sources),
        "the translation of the nearest source": [
            kept[at][1] for at in nearest([source for source, _ in kept], sources)
        ],
    }


def nearest(known: Sequence[str], asked: Sequence[str], size: int = 3) -> list[int]:
    """For each text the known one nearest to it: cosine of counts of pieces of so many letters, rare ones heavy."""
    pieces: dict[str, int] = {}
    rows = [_counted(text, pieces, size) for text in (*known, *asked)]
    counts = csr_matrix(
        (
            [n for row in rows for n in row.values()],
            [at for row in rows for at in row],
            np.cumsum([0, *map(len, rows)]),
        ),
        shape=(len(rows), len(pieces)),
        dtype=np.float64,
    )
    rarity = np.log(len(rows) / np.bincount(counts.indices, minlength=len(pieces)))
    weighed = counts.multiply(rarity).tocsr()
    weighed = weighed.multiply(1 / np.sqrt(weighed.multiply(weighed).sum(1))).tocsr()
    return [int(row.toarray().argmax()) for row in weighed[len(known) :] @ weighed[: len(known)].T]


def _counted(text: str, pieces: dict[str, int], size: int) -> Counter[int]:
    padded = f" {text.casefold()} "
    found = [padded[at : at + size] for at in range(max(len(padded) - size + 1, 1))]
    return Counter(pieces.setdefault(piece, len(pieces)) for piece in found)


def scored(made: Mapping[str, Sequence[str]], targets: Sequence[str]) -> list[str]:
    """Lines of a table: chrF of each way, with its interval, and how many messages are right to the letter."""
    lines = [
        "| translation | chrF | 95 % interval | right to the letter |",
        "| --- | --- | --- | --- |",
    ]
    for name, texts in made.items():
        score = CHRF().corpus_score(list(texts), [list(targets)]).score
        same = sum(a.strip() == b for a, b in zip(texts, targets, strict=True)) / len(targets)
        lines.append(f"| {name} | {score:.1f} | {_interval(texts, targets)} | {same:.1%} |")
    return lines


def _interval(texts: Sequence[str], targets: Sequence[str]) -> str:
    try:
        score = CHRF().corpus_score(list(texts), [list(targets)], n_bootstrap=1000)
    except TypeError:  # it cannot average where in one resampling no letter is right
        return ""
    return f"{score._mean - score._ci:.1f} to {score._mean + score._ci:.1f}"
