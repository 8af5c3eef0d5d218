"""Treebanks: the dependency relations of a CoNLL-U file as probes.

A relation's two probes are `nsubj_to_head` (the dependent looks at its head) and `nsubj_to_dependent` (the head
looks at its dependents, of which any is right), measured as Clark et al. 2019 do: a hit = the most attended word is
a right one, among all words of the sentence. Labels are taken as they stand: `nsubj` is not `nsubj:pass`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from headwise.hub.load import Model
from headwise.names import ConfigError, TextError
from headwise.see.probes.annotated import Coverage, Link, WordUnits, coverage, linking, tell
from headwise.see.probes.conllu import Fault, Sentence, sentences
from headwise.see.probes.probe import Probe
from headwise.see.texts.reading import name_of

__all__ = ["Treebank", "relation", "relations", "treebank"]


@dataclass(frozen=True, eq=False)
class Treebank:
    """A CoNLL-U file as it was read (`treebank`).

    Attributes:
        name: of the file.
        texts: its sentences' texts, in order.
        labels: how many links each relation has, the most frequent first; without the roots, which have no head.
        faults: one line for each sentence that was left out: `FILE, line N: what is wrong`.
        units: the words of each text as units, one for all probes of the treebank.
    """

    name: str
    texts: tuple[str, ...] = field(repr=False)
    labels: Mapping[str, int]
    faults: tuple[str, ...]
    units: WordUnits = field(repr=False)
    _links: Mapping[str, Mapping[str, tuple[Link, ...]]] = field(repr=False)

    def links(self, label: str) -> Mapping[str, tuple[Link, ...]]:
        """For each text that has some, the links of a relation: numbers of the dependent and of its head.

        Raises:
            ConfigError: no word has this relation; the message lists those there are.
        """
        if label not in self._links:
            known = ", ".join(self.labels) or "none"
            why = "a root has no head" if label == "root" else "it never occurs"
            raise ConfigError(f"{self.name} has no relation {label!r} ({why}); there are: {known}")
        return self._links[label]

    def coverage(self, model: Model) -> Coverage:
        """How many of the links the tokens of a model let be seen.

        Raises:
            ModelError: a model without a tokenizer.
        """
        whole: dict[str, list[Link]] = {}
        for of_text in self._links.values():
            for text, links in of_text.items():
                whole.setdefault(text, []).extend(links)
        return coverage(model, self.units, whole)


def treebank(path: str | Path, *, warn: bool = True) -> Treebank:
    """Read a CoNLL-U file (packed where it ends in .gz): what its probes share.

    A sentence with a fault (wrong columns, ids that do not count on, a head that is no word, heads that make no
    tree, words that are not those of its `# text =`) is left out and told in `faults`; the rest is used. The
    words of a multiword token (`3-4`) that it is not made of share its characters; empty nodes (`5.1`) are no
    words. Without a `# text =` the text is made of the words. Of a text that comes again with the same tree one
    is kept.

    Args:
        path: of the file.
        warn: whether to warn once of what is left out.

    Raises:
        TextError: a file that cannot be read, is not UTF-8, or has no sentence that can be used.
    """
    path = Path(path)
    good: dict[str, Sentence] = {}
    faults: list[str] = []
    for found in _once(sentences(path)):
        if isinstance(found, Fault):
            faults.append(
                f"{name_of(path)}, line {found.line}: {found.what}; the sentence is left out"
            )
        else:
            good[found.text] = found
    if not good:
        why = f": {faults[0]}" if faults else ""
        raise TextError(f"no sentence in {name_of(path)}{why}")
    if warn:
        tell(faults)
    return _made(name_of(path), good, tuple(faults))


def relation(
    conllu: str | Path | Treebank, label: str, to: Literal["head", "dependent"] = "head"
) -> Probe:
    """A dependency relation as a probe.

    Args:
        conllu: a CoNLL-U file, or a `treebank` read once for many probes.
        label: of the relation as the file has it, for instance nsubj or nsubj:pass.
        to: "head": each dependent looks at its head; "dependent": each head looks at its dependents.

    Raises:
        ConfigError: a relation that never occurs, or another `to`.
        TextError: as `treebank`.
    """
    if to not in ("head", "dependent"):
        raise ConfigError(f"to must be 'head' or 'dependent', came {to!r}")
    bank = conllu if isinstance(conllu, Treebank) else treebank(conllu)
    links = bank.links(label)
    if to == "dependent":
        links = {text: tuple((head, word) for word, head in found) for text, found in links.items()}
    looks = (
        "the dependent looks at its head" if to == "head" else "the head looks at its dependents"
    )
    name = re.sub(r"[^\w:.]", "_", label)
    return Probe(
        f"{name}_to_{to}",
        linking(bank.units, bank.units, links),
        f"{label} in {Path(bank.name).name}: {looks}",
        units=bank.units,
        by="hits",
    )


def relations(conllu: str | Path | Treebank, least: int = 50) -> tuple[Probe, ...]:
    """Every relation of a file with at least `least` links, both ways, the most frequent first.

    Raises:
        ConfigError: no relation has so many links.
        TextError: as `treebank`.
    """
    bank = conllu if isinstance(conllu, Treebank) else treebank(conllu)
    labels = [label for label, count in bank.labels.items() if count >= least]
    if not labels:
        most = next(iter(bank.labels.values()), 0)
        raise ConfigError(
            f"no relation of {bank.name} has {least} links (at most {most}); choose a smaller least"
        )
    ways: tuple[Literal["head", "dependent"], ...] = ("head", "dependent")
    return tuple(relation(bank, label, to) for label in labels for to in ways)


def _once(found: Iterator[Sentence | Fault]) -> Iterator[Sentence | Fault]:
    """Each text once: another tree of a text that was there is a fault, the same tree is no more."""
    before: dict[str, Sentence] = {}
    for one in found:
        first = before.setdefault(one.text, one) if isinstance(one, Sentence) else one
        if first is one:
            yield one
        elif isinstance(first, Sentence) and isinstance(one, Sentence) and first.heads != one.heads:
            yield Fault(one.line, f"the text of line {first.line} again, with another tree")


def _made(name: str, good: Mapping[str, Sentence], faults: tuple[str, ...]) -> Treebank:
    links: dict[str, dict[str, tuple[Link, ...]]] = {}
    counts: Counter[str] = Counter()
    for text, sentence in good.items():
        for label, found in _by_label(sentence).items():
            links.setdefault(label, {})[text] = found
            counts[label] += len(found)
    units = WordUnits({text: sentence.words for text, sentence in good.items()})
    labels = MappingProxyType(dict(counts.most_common()))
    return Treebank(name, tuple(good), labels, faults, units, links)


def _by_label(sentence: Sentence) -> dict[str, tuple[Link, ...]]:
    found: dict[str, tuple[Link, ...]] = {}
    for word, (head, label) in enumerate(sentence.heads):
        if head >= 0:
            found[label] = (*found.get(label, ()), (word, head))
    return found
