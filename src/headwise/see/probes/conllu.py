"""CoNLL-U, sentence by sentence, each fault with its line.

The columns are split here and not by the conllu package, which takes lines of too few or too many columns, splits
them at two spaces as well as at tabs, and does not know its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from headwise.see.texts.reading import TEXT_COMMENT, lines, opened
from headwise.see.texts.units import Span

__all__ = ["Fault", "Sentence", "sentences"]

_COLUMNS = 10


@dataclass(frozen=True)
class Sentence:
    """One sentence.

    Attributes:
        line: its first, from 1.
        text: as its comment has it, or made of its words.
        words: the characters of each word; those of a multiword token that it is not made of (French `du` of `de`
            and `le`) share its characters.
        heads: of each word the number of its head in `words` (-1: the root) and the relation to it.
    """

    line: int
    text: str
    words: tuple[Span, ...]
    heads: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a sentence, and in which line."""

    line: int
    what: str


@dataclass
class _Row:
    """A line of a word, or of a multiword token over `covers` words."""

    line: int
    form: str
    spaced: bool
    head: int = 0
    label: str = ""
    covers: int = 0


class _WrongError(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.fault = Fault(line, what)


def sentences(path: Path) -> Iterator[Sentence | Fault]:
    """The sentences of a file in order, a fault in the place of each that is wrong.

    Raises:
        TextError: a file that cannot be read or is not UTF-8.
    """
    block: list[tuple[int, str]] = []
    with opened(path) as file:
        for number, line in lines(path, file):
            if line.strip():
                block.append((number, line))
            elif block:
                yield from _sentence(block)
                block = []
    if block:
        yield from _sentence(block)


def _sentence(block: Sequence[tuple[int, str]]) -> Iterator[Sentence | Fault]:
    """The sentence of these lines; nothing for a block of comments."""
    text = next((line for _, line in block if line.startswith(TEXT_COMMENT)), None)
    if all(line.startswith("#") for _, line in block):
        return
    try:
        rows = list(_rows(block))
        words = [row for row in rows if not row.covers]
        heads = tuple((row.head - 1, row.label) for row in words)
        _check_tree(words)
        known = _spelt(rows) if text is None else text.removeprefix(TEXT_COMMENT).strip()
        yield Sentence(block[0][0], known, tuple(_spans(rows, known)), heads)
    except _WrongError as wrong:
        yield wrong.fault


def _check_tree(words: Sequence[_Row]) -> None:
    """Refuse heads by which not every word comes to a root."""
    for number, row in enumerate(words, 1):
        if row.head > len(words):
            raise _WrongError(row.line, f"the head {row.head} is none of its {len(words)} words")
        if row.head == number:
            raise _WrongError(row.line, f"word {number} is its own head")
    if words and all(row.head for row in words):
        raise _WrongError(words[0].line, "no word has the head 0, so that there is no root")
    rooted = {0}
    for number in range(1, len(words) + 1):
        way = [number]
        while (head := words[way[-1] - 1].head) not in rooted:
            if head in way:
                circle = " to ".join(map(str, [*way[way.index(head) :], head]))
                raise _WrongError(words[head - 1].line, f"the heads go round in a circle: {circle}")
            way.append(head)
        rooted.update(way)


def _rows(block: Sequence[tuple[int, str]]) -> Iterator[_Row]:
    """The words and multiword tokens in order."""
    count = until = 0  # words so far, and the last one that a multiword token covers
    for number, line in block:
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise _WrongError(
                number, f"{_COLUMNS} columns split by tabs are needed, came {len(columns)}"
            )
        id, form = columns[0], columns[1].strip()
        spaced = "SpaceAfter=No" not in columns[9].split("|")
        if "." in id:
            continue
        first, dash, last = id.partition("-")
        if first != str(count + 1):
            raise _WrongError(number, f"the id {id!r} does not count on; {count + 1} is next")
        if not form:
            raise _WrongError(number, f"word {id} has no form")
        if dash:
            if not last.isdecimal() or int(last) <= count or count < until:
                raise _WrongError(number, f"the id {id!r} is no range of words")
            until = int(last)
            yield _Row(number, form, spaced, covers=until - count)
            continue
        count += 1
        yield _Row(number, form, spaced, _head(number, columns[6]), columns[7])
    if count < until:
        raise _WrongError(block[-1][0], f"word {until} of a multiword token is missing")


def _head(number: int, head: str) -> int:
    if not (head.isascii() and head.isdecimal()):
        raise _WrongError(number, f"the head must be a word's number or 0, came {head!r}")
    return int(head)


def _surface(rows: Sequence[_Row]) -> Iterator[tuple[_Row, list[str]]]:
    """What stands in the text, multiword tokens and the words in none, each with the forms of its words."""
    at = 0
    while at < len(rows):
        row = rows[at]
        yield row, [word.form for word in rows[at + 1 : at + 1 + row.covers]] or [row.form]
        at += 1 + row.covers


def _spelt(rows: Sequence[_Row]) -> str:
    """The text that the words make."""
    return "".join(row.form + " " * row.spaced for row, _ in _surface(rows)).strip()


def _spans(rows: Sequence[_Row], text: str) -> Iterator[Span]:
    """The characters of each word: the forms follow one another in the text, with only space between them."""
    at = 0
    for row, forms in _surface(rows):
        at += len(text[at:]) - len(text[at:].lstrip())
        end = at + len(row.form)
        if not text.startswith(row.form, at):
            there = text[at : max(at + 8, end)] or "its end"
            raise _WrongError(
                row.line, f"the word {row.form!r} is not in the text, which goes on with {there!r}"
            )
        if "".join(forms) == row.form:
            ends = list(accumulate(map(len, forms), initial=at))
            yield from pairwise(ends)
        else:
            yield from [(at, end)] * len(forms)
        at = end
    if text[at:].strip():
        rest = text[at:].strip()[:20]
        raise _WrongError(rows[-1].line, f"the text goes on after the last word: {rest!r}")
