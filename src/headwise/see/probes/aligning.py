"""Word alignment: what each word of a target should look at in its source, as a probe of cross-attention.

A source is a text, whose words are the candidates, or a row of positions (the frames of speech; Whisper has 50 a
second), each of which is one. The comparison to make is `Aligned.even_pace`, what steady progress gets right: no
fixed offset is a baseline between two sides of different lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from headwise.names import TextError
from headwise.see.probes.annotated import WordUnits, tell
from headwise.see.probes.entries import (
    Entries,
    entries,
    items_of,
    leaving_out,
    numbers_of,
    span_of,
    text_of,
)
from headwise.see.probes.probe import Probe, Ranges, Rule, Units
from headwise.see.record import Side
from headwise.see.texts.reading import name_of
from headwise.see.texts.tokens import Token
from headwise.see.texts.units import Span, UnitMap, split_at
from headwise.see.texts.words import spans_of

__all__ = ["Aligned", "aligned", "alignment"]

_Pair = tuple[Span, Span]
"""Characters of the target, and those of the source or its positions."""

_Texts = tuple[str, str | None]
"""A target and its source, None where that is positions; without space around them but where a user gets them."""


@dataclass(frozen=True, eq=False)
class Aligned:
    """An alignment as it was read (`aligned`).

    Attributes:
        name: of the file.
        texts: the targets in order, what the decoder reads.
        sources: the source of each, None where it is positions.
        faults: one line for each entry that was left out: `FILE, line N: what is wrong`.
        even_pace: the share of target words that even pace gets right: with the target's characters mapped in
            proportion to the source, the middle of the word falls on what it is aligned with. A head that only goes
            ahead steadily does that. Between texts the whole of one is mapped to the whole of the other; of
            positions the stretch from the first one that is aligned to the last (silence is before and after).
        probe: target words look at what they are aligned with.
    """

    name: str
    texts: tuple[str, ...] = field(repr=False)
    sources: tuple[str | None, ...] = field(repr=False)
    faults: tuple[str, ...]
    even_pace: float
    probe: Probe = field(repr=False)


def aligned(source: Entries, *, ahead: bool = False, warn: bool = True) -> Aligned:
    """Read an alignment, from JSON lines or objects.

    Between texts `{"source": ..., "target": ..., "links": [[[start, end], [start, end]], ...]}`, in each link the
    target's characters and then the source's. To positions `{"target": ..., "spans": [[start, end, first, last],
    ...]}`: the characters of a word and its positions, from `first` to the one before `last`. Entries with a fault
    are left out and told in `faults`.

    Args:
        source: a file (packed where it ends in .gz), or such objects.
        ahead: whether a word is looked for from where it is predicted, while the token before it is read, not from
            where it is read itself: what a decoder looks at to write it. The first position is left out as
            everywhere, though it predicts a token.
        warn: whether to warn once of what is left out.

    Raises:
        TextError: a file that cannot be read, or has no entry that can be used.
    """
    faults: list[str] = []
    pairs: dict[_Texts, list[_Pair]] = {}
    given: dict[_Texts, _Texts] = {}
    name = name_of(Path(source)) if isinstance(source, str | Path) else "the alignment"
    for where, entry in entries(source, faults):
        with leaving_out(where, faults):
            texts, found = _pairs_of(entry)
            bare = (texts[0].strip(), texts[1] and texts[1].strip())
            if pairs.setdefault(bare, found) != found:
                raise TextError("the same texts came before with another alignment")
            given.setdefault(bare, texts)
    if not pairs:
        why = f": {faults[0]}" if faults else ""
        raise TextError(f"no alignment in {name}{why}")
    if warn:
        tell(faults)
    targets, sources = zip(*given.values(), strict=True)
    pace = _even_pace(pairs)
    probe = _probe(pairs, ahead)
    if pace == pace:  # there is an aligned word
        probe = replace(probe, rival=("even pace", pace))
    return Aligned(name, targets, sources, tuple(faults), pace, probe)


def alignment(source: Entries | Aligned) -> Probe:
    """Word alignment as a probe of cross-attention: each aligned word of a target looks at its part of the source.

    Args:
        source: as `aligned` takes, or what it gave.

    Raises:
        TextError: as `aligned`.
    """
    return (source if isinstance(source, Aligned) else aligned(source)).probe


def _pairs_of(entry: Mapping[str, Any]) -> tuple[_Texts, list[_Pair]]:
    target = text_of(entry, "target")
    if "spans" in entry:
        return (target, None), sorted({_to_positions(x, target) for x in items_of(entry, "spans")})
    source = text_of(entry, "source")
    return (target, source), sorted({_to_text(x, target, source) for x in items_of(entry, "links")})


def _to_positions(value: Any, target: str) -> _Pair:
    start, end, first, last = numbers_of(value, 4, "[start, end, first position, last position]")
    if not 0 <= first < last:
        raise TextError(
            f"the positions {first} to {last} are none; the last is the one after the last"
        )
    return span_of([start, end], target), (first, last)


def _to_text(value: Any, target: str, source: str) -> _Pair:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise TextError(f"a link is [the target's span, the source's span], came {str(value)[:60]}")
    return span_of(value[0], target), span_of(value[1], source)


def _probe(pairs: Mapping[_Texts, Sequence[_Pair]], ahead: bool) -> Probe:
    looks: dict[str, set[Span]] = {}
    ends: dict[str, set[int]] = {}
    for (target, source), found in pairs.items():
        looks.setdefault(target, set()).update(span for span, _ in found)
        if source is not None:
            ends.setdefault(source, set()).update(end for _, span in found for end in span)
    words = {text: split_at(spans_of(text), found) for text, found in ends.items()}
    spans = {text: sorted(found) for text, found in looks.items()}
    units, rule = _measured(pairs, spans, words, ahead)
    says = "a word of the target looks at what it is aligned with in the source"
    if ahead:
        says = says.replace("a word", "what predicts a word").replace(
            "what it is", "what the word is"
        )
    return Probe("alignment", rule, says, across=True, units=units, by="hits", fixed=False)


def _measured(
    pairs: Mapping[_Texts, Sequence[_Pair]],
    spans: Mapping[str, Sequence[Span]],
    words: Mapping[str, Sequence[Span]],
    ahead: bool,
) -> tuple[Units, Rule]:
    targets, sources = WordUnits(spans), WordUnits(words)
    before: WeakKeyDictionary[Side, Side] = WeakKeyDictionary()

    def looking(side: Side) -> UnitMap:
        if ahead and side not in before:
            before[side] = _predicting(side)
        return targets.of(before[side] if ahead else side)

    def found(queries: Side, keys: Side) -> _Texts | None:
        source = None if _positions(keys) else keys.text.strip()
        texts = queries.text.strip(), source
        return texts if texts in pairs else None

    def units(queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        if found(queries, keys) is None:
            return (), ()
        count = len(keys.tokens)
        there = [(i, i + 1) for i in range(count)] if _positions(keys) else sources.of(keys).ranges
        return looking(queries).ranges, there

    def rule(queries: Side, keys: Side) -> list[list[int]]:
        texts = found(queries, keys)
        if texts is None:
            return []
        here = looking(queries)
        named: list[list[int]] = [[] for _ in here.ranges]
        target, source = texts
        for span, at in pairs[texts]:
            query = here.unit[spans[target].index(span)]
            if query >= 0:
                named[query] += (
                    range(at[0], min(at[1], len(keys.tokens)))
                    if source is None
                    else _held(words[source], sources.of(keys), at)
                )
        return named

    return units, rule


def _held(words: Sequence[Span], units: UnitMap, span: Span) -> Iterable[int]:
    """The units of the words within these characters."""
    inside = [at for at, (start, end) in enumerate(words) if span[0] <= start and end <= span[1]]
    return {units.unit[at] for at in inside} - {-1}


def _predicting(side: Side) -> Side:
    """Each position as the token that comes after it, the one it predicts; the last predicts none of them."""
    end = Token(-1, "", len(side.text), len(side.text), special=True)
    return Side(side.text, (*side.tokens[1:], end))


def _positions(keys: Side) -> bool:
    """Whether the tokens of a side are no tokens of a text but numbered positions."""
    return all(token.id < 0 for token in keys.tokens)


def _even_pace(pairs: Mapping[_Texts, Sequence[_Pair]]) -> float:
    """`Aligned.even_pace`."""
    right = count = 0
    for (target, source), found in pairs.items():
        if source is None and found:
            start, end = min(word[0] for word, _ in found), max(word[1] for word, _ in found)
            first, last = min(at[0] for _, at in found), max(at[1] for _, at in found)
        else:
            start, end, first, last = 0, len(target), 0, len(source or "")
        for word in {word for word, _ in found}:
            along = ((word[0] + word[1]) / 2 - start) / (end - start)
            position = first + along * (last - first)
            right += any(a <= position < b for other, (a, b) in found if other == word)
            count += 1
    return right / count if count else float("nan")
