"""Annotated texts: words, and links between them, that probes of units name in whatever tokens a model reads.

An annotation is of a text; a model's tokens are found in it by their characters. Space at either end of a text is
no part of it, so a decoder's text that begins with a space is known as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.see.probes.probe import Ranges, Rule
from headwise.see.record import Side
from headwise.see.texts.tokens import tokenize
from headwise.see.texts.units import Span, UnitMap, units_of

__all__ = ["Coverage", "Link", "PairUnits", "WordUnits", "coverage", "linking", "tell"]

Link = tuple[int, int]
"""The word that looks and the word looked at, as numbers of a text's words."""

_NONE = UnitMap((), ())


class WordUnits:
    """The units of a text whose words are known; an unknown text has none.

    Args:
        words: for each text, without space around it, the characters of its words, in order of their starts.
    """

    def __init__(self, words: Mapping[str, Sequence[Span]]) -> None:
        self._words = dict(words)
        self._known: WeakKeyDictionary[Side, UnitMap] = WeakKeyDictionary()

    def __call__(self, queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        """The units of both sides, as `Probe.units`."""
        return self.of(queries).ranges, self.of(keys).ranges

    def of(self, side: Side) -> UnitMap:
        """The units of a side, found once for all probes."""
        found = self._known.get(side)
        if found is None:
            found = self._known[side] = self._find(side)
        return found

    def _find(self, side: Side) -> UnitMap:
        words = self._words.get(side.text.strip(), ())
        if not words:
            return _NONE
        shift = len(side.text) - len(side.text.lstrip())
        if shift:
            words = [(start + shift, end + shift) for start, end in words]
        return units_of(words, side.tokens)


class PairUnits:
    """The units of two kinds: those that look, and those that are looked at."""

    def __init__(self, looks: WordUnits, looked_at: WordUnits) -> None:
        self.looks, self.looked_at = looks, looked_at

    def __call__(self, queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        """The units of both sides, as `Probe.units`."""
        return self.looks.of(queries).ranges, self.looked_at.of(keys).ranges


def linking(looks: WordUnits, looked_at: WordUnits, links: Mapping[str, Iterable[Link]]) -> Rule:
    """The rule of these links within each text; one whose words are in the same tokens, or in none, is no case."""

    def rule(queries: Side, keys: Side) -> list[list[int]]:
        here, there = looks.of(queries), looked_at.of(keys)
        named: list[list[int]] = [[] for _ in here.ranges]
        for word, target in links.get(queries.text.strip(), ()) if named else ():
            query, key = here.unit[word], there.unit[target]
            if min(query, key) >= 0 and here.ranges[query] != there.ranges[key]:
                named[query].append(key)
        return named

    return rule


@dataclass(frozen=True)
class Coverage:
    """What a model's tokens leave of an annotation's links.

    Attributes:
        links: all of them.
        seen: those that can be seen: their two words are in different units.
        merged: those within one unit, since a token holds both words.
        lost: those with a word in no unit: the text's first token alone, or nothing a token says.
    """

    links: int
    seen: int
    merged: int
    lost: int


def coverage(model: Model, units: WordUnits, links: Mapping[str, Iterable[Link]]) -> Coverage:
    """What the tokens of a model leave of these links, each text taken whole.

    Raises:
        ModelError: a model without a tokenizer.
    """
    if model.tokenizer is None:
        raise ModelError(f"{model.name} has no tokenizer; load(module, tokenizer=...)")
    counts = {"seen": 0, "merged": 0, "lost": 0}
    for text, found in links.items():
        unit = units.of(Side(text, tokenize(model.tokenizer, text))).unit
        for word, target in found:
            query, key = unit[word], unit[target]
            outcome = "lost" if min(query, key) < 0 else "merged" if query == key else "seen"
            counts[outcome] += 1
    return Coverage(sum(counts.values()), **counts)


def tell(faults: Sequence[str], stacklevel: int = 3) -> None:
    """Warn once of what is left out of a file: how much, and the first of it."""
    if faults:
        more = f" (and {len(faults) - 1} more, see .faults)" if len(faults) > 1 else ""
        warnings.warn(f"{faults[0]}{more}", stacklevel=stacklevel)
