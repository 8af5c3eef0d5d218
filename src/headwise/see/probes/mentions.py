"""Coreference: which words speak of the same thing, as a probe.

The later mention looks at an earlier one of the same entity: its last word, where all of it has been read, looks at
any word of any earlier mention. Clark et al. 2019 take the head words of mentions; here there is no parse, so every
word of a mention is right. The candidates are all words of the text, as theirs are; `candidates=True` leaves only
the mentions themselves (of GAP: which of the two names?).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from headwise.hub.load import Model
from headwise.names import TextError
from headwise.see.probes.annotated import (
    Coverage,
    Link,
    PairUnits,
    WordUnits,
    coverage,
    linking,
    tell,
)
from headwise.see.probes.entries import Entries, entries, items_of, leaving_out, span_of, text_of
from headwise.see.probes.gap import is_gap, read_gap
from headwise.see.probes.probe import Probe
from headwise.see.texts.reading import name_of, said
from headwise.see.texts.units import Span, split_at
from headwise.see.texts.words import spans_of

__all__ = ["Mentions", "coreference", "mentions"]


class _Case(NamedTuple):
    """In a text, the mention that looks, those it should look at, and all that are candidates."""

    text: str
    looks: Span
    named: tuple[Span, ...]
    candidates: tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class Mentions:
    """An annotation of coreference as it was read (`mentions`).

    Attributes:
        name: of the file.
        texts: each text once, in order, those without a case too.
        cases: how many mentions have one to look at.
        faults: one line for each entry that was left out: `FILE, line N: what is wrong`.
        words: the probe among all words of the text.
        candidates: the probe among the mentions alone.
    """

    name: str
    texts: tuple[str, ...] = field(repr=False)
    cases: int
    faults: tuple[str, ...]
    words: Probe = field(repr=False)
    candidates: Probe = field(repr=False)
    _units: WordUnits = field(repr=False)
    _links: Mapping[str, tuple[Link, ...]] = field(repr=False)

    def coverage(self, model: Model) -> Coverage:
        """How many of the links between words the tokens of a model let be seen.

        Raises:
            ModelError: a model without a tokenizer.
        """
        return coverage(model, self._units, self._links)


def mentions(source: Entries, *, warn: bool = True) -> Mentions:
    """Read an annotation of coreference: what its probes share.

    Of GAP's tables (Webster et al. 2018; told by the columns) the pronoun looks at the name that corefers, wherever
    it stands; a row where neither does is no case. JSON lines hold
    `{"text": ..., "clusters": [[[start, end], ...], ...]}`, each cluster the mentions of one entity, or
    `{"text": ..., "links": [{"from": [start, end], "to": [[start, end], ...]}]}`, in characters from 0, the end the
    one after the last. Entries with a fault are left out and told in `faults`.

    Args:
        source: a file (packed where it ends in .gz), or such objects.
        warn: whether to warn once of what is left out.

    Raises:
        TextError: a file that cannot be read, is of neither kind, or has no entry that can be used.
    """
    faults: list[str] = []
    name = name_of(Path(source)) if isinstance(source, str | Path) else "the mentions"
    texts: dict[str, str] = {}
    cases: list[_Case] = []
    for text, found in _read(source, faults):
        texts.setdefault(text.strip(), text)
        cases.extend(found)
    if not texts:
        why = f": {faults[0]}" if faults else ""
        raise TextError(f"no text with mentions in {name}{why}")
    if warn:
        tell(faults)
    return _made(name, tuple(texts.values()), cases, tuple(faults))


def coreference(source: Entries | Mentions, *, candidates: bool = False) -> Probe:
    """Coreference as a probe: a mention looks at an earlier one of the same entity (GAP: the pronoun at the name).

    Args:
        source: as `mentions` takes, or what it gave, read once for several probes.
        candidates: the mentions alone are candidates, each one unit: of GAP the two names, of clusters all mentions
            (one within another is one unit with it), of links those at either end.

    Raises:
        TextError: as `mentions`.
    """
    found = source if isinstance(source, Mentions) else mentions(source)
    return found.candidates if candidates else found.words


def _read(source: Entries, faults: list[str]) -> Iterator[tuple[str, list[_Case]]]:
    """Each text with its cases."""
    if isinstance(source, str | Path) and is_gap(Path(source)):
        for row in read_gap(Path(source), faults):
            names = (row.a, row.b)
            right = tuple(name for name, is_it in zip(names, row.coref, strict=True) if is_it)
            yield row.text, [_Case(row.text, row.pronoun, right, names)] if right else []
        return
    for where, entry in entries(source, faults):
        with leaving_out(where, faults):
            text = text_of(entry, "text")
            yield text, _of_clusters(entry, text) if "clusters" in entry else _of_links(entry, text)


def _of_clusters(entry: Mapping[str, Any], text: str) -> list[_Case]:
    clusters = [_spans(cluster, text, "a cluster") for cluster in items_of(entry, "clusters")]
    every = tuple(sorted({*chain.from_iterable(clusters)}))
    found = []
    for cluster in clusters:
        for looks in cluster:
            earlier = tuple(span for span in cluster if span[1] <= looks[0])
            if earlier:
                found.append(_Case(text, looks, earlier, every))
    return found


def _of_links(entry: Mapping[str, Any], text: str) -> list[_Case]:
    found = []
    for link in items_of(entry, "links"):
        if not isinstance(link, Mapping) or not {"from", "to"} <= set(link):
            raise TextError(
                'a link must be {"from": [start, end], "to": [[start, end], ...]}, '
                f"came {str(link)[:60]}"
            )
        looks = span_of(link["from"], text)
        found.append((looks, tuple(_spans(link["to"], text, "what a link is to"))))
    every = tuple(sorted({span for looks, named in found for span in (looks, *named)}))
    return [_Case(text, looks, named, every) for looks, named in found if named]


def _spans(value: Any, text: str, what: str) -> list[Span]:
    if not isinstance(value, list | tuple):
        raise TextError(f"{what} must be a list of spans [start, end], came {said(value)}")
    return sorted({span_of(span, text) for span in value})


def _made(
    name: str, texts: tuple[str, ...], cases: Sequence[_Case], faults: tuple[str, ...]
) -> Mentions:
    of_text: dict[str, list[_Case]] = {}
    for case in cases:
        of_text.setdefault(case.text.strip(), []).append(case)
    says = "a mention looks at an earlier one of the same entity"
    words, links = _among_words(of_text)
    looks = {text: _sorted(case.looks for case in found) for text, found in of_text.items()}
    others = {
        text: _sorted(span for case in found for span in case.candidates)
        for text, found in of_text.items()
    }
    pairs = PairUnits(WordUnits(looks), WordUnits(others))
    among = {
        text: [
            (looks[text].index(case.looks), others[text].index(span))
            for case in found
            for span in case.named
        ]
        for text, found in of_text.items()
    }
    return Mentions(
        name,
        texts,
        len(cases),
        faults,
        Probe("coreference", linking(words, words, links), says, units=words, by="hits"),
        Probe(
            "coreference:candidates",
            linking(pairs.looks, pairs.looked_at, among),
            f"{says}, among the mentions alone",
            units=pairs,
            by="hits",
        ),
        words,
        links,
    )


def _among_words(
    of_text: Mapping[str, Sequence[_Case]],
) -> tuple[WordUnits, dict[str, tuple[Link, ...]]]:
    """The words of each text, split at the mentions' ends, and the links between them."""
    words: dict[str, tuple[Span, ...]] = {}
    links: dict[str, tuple[Link, ...]] = {}
    for text, cases in of_text.items():
        ends = {end for case in cases for span in (case.looks, *case.candidates) for end in span}
        spans = words[text] = split_at(spans_of(text), ends)
        links[text] = tuple(
            (_within(spans, case.looks)[-1], word)
            for case in cases
            for mention in case.named
            for word in _within(spans, mention)
        )
    return WordUnits(words), links


def _within(words: Sequence[Span], mention: Span) -> list[int]:
    return [
        at for at, (start, end) in enumerate(words) if mention[0] <= start and end <= mention[1]
    ]


def _sorted(spans: Iterable[Span]) -> list[Span]:
    return sorted(set(spans))
