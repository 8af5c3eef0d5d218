"""Which words of a pair belong together: what stands on both sides unchanged, and IBM's model 1.

Words of English are runs of letters and digits (and %s, --all, file.c as they stand); those of Chinese, which has
no spaces, are its characters, and such runs between them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

Span = tuple[int, int]
Link = tuple[Span, Span]
"""Characters of the target, and those of the source."""

_RUN = r"%[-+0-9.$*#]*[a-zA-Z]+|-{0,2}[A-Za-z0-9]+(?:[-_./:=][A-Za-z0-9]+)*"
_WORDS = re.compile(rf"{_RUN}|[\u3400-\u9fff]")


def words(text: str) -> list[Span]:
    """The characters of each word."""
    return [found.span() for found in _WORDS.finditer(text)]


def unchanged(source: str, target: str) -> list[Link]:
    """What stands once on either side, letter by letter."""
    sides = [[(text[a:b], (a, b)) for a, b in words(text)] for text in (source, target)]
    counts = [Counter(word for word, _ in side) for side in sides]
    where = dict(sides[0])
    return [
        (span, where[word]) for word, span in sides[1] if counts[0][word] == counts[1][word] == 1
    ]


class Model1:
    """P(target word | source word) of IBM's model 1 (Brown et al. 1993), by EM from a uniform start.

    Each target word comes from one word of its source, or from none: a source word besides.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], rounds: int = 8) -> None:
        numbers: dict[tuple[str, str], int] = {}
        cells, slots, slot = [], [], 0
        for source, target in pairs:
            froms = ["", *_forms(source)]
            for word in _forms(target):
                cells += [numbers.setdefault((one, word), len(numbers)) for one in froms]
                slots += [slot] * len(froms)
                slot += 1
        cell, at = np.array(cells), np.array(slots)
        known = {one: n for n, one in enumerate(dict.fromkeys(one for one, _ in numbers))}
        of = np.array([known[one] for one, _ in numbers])
        share = np.ones(len(numbers))
        for _ in range(rounds):
            each = share[cell]
            each /= np.bincount(at, each)[at]
            count = np.bincount(cell, each)
            share = count / np.bincount(of, count)[of]
        self._numbers, self._share = numbers, share

    def chances(self, source: str, target: str) -> np.ndarray:
        """[target word, source word]: how likely each target word comes from each source word."""
        froms = ["", *_forms(source)]
        shares = np.array(
            [
                [self._share[n] if (n := self._numbers.get((one, word))) is not None else 0.0
                 for one in froms]
                for word in _forms(target)
            ]
        ).reshape(-1, len(froms))  # fmt: skip
        return shares[:, 1:] / np.maximum(shares.sum(1, keepdims=True), 1e-12)


class Likely:
    """Links that model 1 is sure of in both directions, from pairs that it was fitted on."""

    def __init__(self, pairs: Sequence[tuple[str, str]], least: float = 0.5) -> None:
        self.there = Model1(pairs)
        self.back = Model1([(target, source) for source, target in pairs])
        self.least = least

    def links(self, source: str, target: str) -> list[Link]:
        """Target words with the one source word they come from; neighbours of one source word are one."""
        there = self.there.chances(source, target)
        both = np.minimum(there, self.back.chances(target, source).T) if there.size else there
        found: list[Link] = []
        spans, froms = words(target), words(source)
        for row, span in enumerate(spans):
            if not both.size or there[row].max() < self.least:
                continue
            best = int(there[row].argmax())
            if both[row, best] < self.least / 5:
                continue
            if found and found[-1] == ((found[-1][0][0], span[0]), froms[best]):
                found[-1] = ((found[-1][0][0], span[1]), froms[best])
            else:
                found.append((span, froms[best]))
        return found


def _forms(text: str) -> list[str]:
    return [text[start:end].casefold() for start, end in words(text)]
