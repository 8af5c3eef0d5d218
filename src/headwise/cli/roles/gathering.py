"""What `headwise roles` reads: texts, each once, and the probes that are asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from headwise.cli.roles.command import RolesRequest
from headwise.names import ConfigError, TextError
from headwise.see.probes import (
    BUILT_IN,
    ON_REPEATED,
    Probe,
    Treebank,
    aligned,
    coreference,
    mentions,
    relations,
    treebank,
)
from headwise.see.probes.probe import Ranges
from headwise.see.record import Side

__all__ = ["Gathered", "gather"]

_LEAST = 50
"""Relations of fewer links are left out, unless they are asked for or none has as many."""


@dataclass(frozen=True)
class Gathered:
    """Texts, as often as they are asked for, and probes of them and of random tokens.

    Attributes:
        texts: called for the texts in order; those with annotations come first.
        count: how many there are, where that is quick to tell.
        targets: called for what an encoder-decoder's decoder reads for each; None = what it writes itself.
        probes: of the texts.
        repeated: of rows of random tokens.
        faults: a line for each annotation that cannot be used.
    """

    texts: Callable[[], Iterator[str]]
    count: int | None
    targets: Callable[[], Iterator[str]] | None
    probes: tuple[Probe, ...]
    repeated: tuple[Probe, ...]
    faults: tuple[str, ...]


def gather(request: RolesRequest) -> Gathered:
    """Read the annotations.

    Raises:
        TextError: a file that cannot be read, or in which there is nothing to use.
        ConfigError: a probe that there is none of.
    """
    annotated, found, faults = list[str](), list[Sequence[Probe]](), list[str]()
    banks = [treebank(path, warn=False) for path in request.conllu]
    limit = request.corpus.limit
    for bank in banks:
        most = max(bank.labels.values(), default=0)
        least = 1 if request.probes or most < _LEAST else _LEAST
        found.append(relations(bank, least) if bank.labels else ())
        annotated += bank.texts[:limit]
        faults += bank.faults
    for path in request.coref:
        spans = mentions(path, warn=False)
        found.append([coreference(spans)])
        annotated += spans.texts[:limit]
        faults += spans.faults
    targets = None if request.targets is None else request.targets.texts
    if request.align is not None:
        pairs = aligned(request.align, warn=False)
        if None in pairs.sources:
            raise TextError(
                f"{request.align} aligns with positions, not with texts; pass those from Python: "
                "hw.profile(model, {...}, probes=[hw.probes.alignment(...)])"
            )
        found.append([pairs.probe])
        annotated = [source for source in pairs.sources[:limit] if source is not None]
        targets = pairs.texts[:limit].__iter__
        faults += pairs.faults
    every = [*BUILT_IN, *_joined(found)]
    _check_names(request.probes, every, banks)
    texts, count = _texts(request, annotated, once=request.align is None)
    return Gathered(
        texts,
        count,
        targets,
        *_chosen(request.probes, every),
        faults=tuple(faults),
    )


def _texts(
    request: RolesRequest, annotated: Sequence[str], once: bool
) -> tuple[Callable[[], Iterator[str]], int | None]:
    """The annotated texts, then those of the files that are not among them; and how many.

    A limit counts for each source, and all files are one.
    """
    corpus = request.corpus
    first = list({text.strip(): text for text in annotated}.values()) if once else list(annotated)
    known = {text.strip() for text in first}
    piped = any(str(path) == "-" for path in corpus.files)
    kept = list(islice(corpus.texts(), corpus.limit)) if piped else None

    def texts() -> Iterator[str]:
        more = corpus.texts() if kept is None and corpus.files else iter(kept or ())
        return chain(first, (text for text in more if text.strip() not in known))

    files = 0 if not corpus.files else corpus.count() if kept is None else len(kept)
    if first and files:
        files = None  # how many of them are annotated is not known
    if files is None:
        return texts, None
    return texts, len(first) + files


def _chosen(
    names: Sequence[str], probes: Sequence[Probe]
) -> tuple[tuple[Probe, ...], tuple[Probe, ...]]:
    """Those of the names, of texts and of random tokens; a relation's name stands for both its ways."""
    if not names:
        return tuple(probes), ON_REPEATED
    texts, repeated = (
        tuple(p for p in group if any(name in _names(p) for name in names))
        for group in (probes, ON_REPEATED)
    )
    return texts, repeated


def _check_names(names: Sequence[str], probes: Sequence[Probe], banks: Sequence[Treebank]) -> None:
    """Refuse a name that is no probe's; the relations there are stand for both their ways."""
    every = [*probes, *ON_REPEATED]
    for name in names:
        if any(name in _names(probe) for probe in every):
            continue
        known = ", ".join(p.name for p in every if not (banks and _relation(p)))
        if not banks:
            raise ConfigError(f"there is no probe {name!r} in what is read; there are {known}")
        labels = ", ".join(dict.fromkeys(label for bank in banks for label in bank.labels))
        why = "a root has no head" if name == "root" else "it never occurs"
        raise ConfigError(
            f"{' and '.join(bank.name for bank in banks)}: no relation {name!r} ({why}); there are: "
            f"{labels or 'none'}; and other probes: {known}"
        )


def _relation(probe: Probe) -> str:
    """The relation a probe is of, "" for others."""
    return probe.name.rpartition("_to_")[0]


def _names(probe: Probe) -> tuple[str, ...]:
    relation = _relation(probe)
    return (probe.name, relation) if relation else (probe.name,)


def _joined(groups: Sequence[Sequence[Probe]]) -> list[Probe]:
    """The probes of all annotations; those of one name become one, which asks whichever knows the text."""
    names = list(dict.fromkeys(probe.name for group in groups for probe in group))
    owners = {name: [p for group in groups for p in group if p.name == name] for name in names}
    shared: dict[tuple[int, ...], Callable[[Side, Side], tuple[Ranges, Ranges]]] = {}
    found = []
    for name in names:
        probes = owners[name]
        if len(probes) > 1:
            key = tuple(id(probe.units) for probe in probes)
            units = shared.setdefault(key, _units_of(probes))
            probe = replace(probes[0], rule=_rule_of(probes), units=units, says=_says_of(probes))
        else:
            probe = probes[0]
        found.append(probe)
    return found


def _says_of(probes: Sequence[Probe]) -> str:
    """What they say, in as many words as it takes: that of two files alike but for their names."""
    told = [probe.says.partition(": ") for probe in probes]
    if len({end for *_, end in told}) == 1:
        sources = " and ".join(dict.fromkeys(start for start, *_ in told))
        return "".join([sources, *told[0][1:]])
    return "; ".join(dict.fromkeys(probe.says for probe in probes))


def _knows(probe: Probe, queries: Side, keys: Side) -> bool:
    return probe.units is not None and bool(probe.units(queries, keys)[0])


def _units_of(probes: Sequence[Probe]) -> Callable[[Side, Side], tuple[Ranges, Ranges]]:
    def units(queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        for probe in probes:
            if probe.units is not None and _knows(probe, queries, keys):
                return probe.units(queries, keys)
        return (), ()

    return units


def _rule_of(probes: Sequence[Probe]) -> Callable[[Side, Side], Sequence[Sequence[int]]]:
    def rule(queries: Side, keys: Side) -> Sequence[Sequence[int]]:
        for probe in probes:
            if _knows(probe, queries, keys):
                named: Sequence[Sequence[int]] = probe.rule(queries, keys)  # type: ignore[assignment]
                return named
        return []

    return rule
