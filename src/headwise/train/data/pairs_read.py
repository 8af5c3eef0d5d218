"""Pairs of a source and its target, from the files that translations come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headwise.names import ConfigError, TextError
from headwise.see.texts.corpus import Corpus
from headwise.see.texts.reading import ending, lines, name_of, opened, parsed, said, whole

__all__ = ["Pair", "read_pairs"]

Pair = tuple[str, str]
"""A source, a target."""

_JSON = {".jsonl", ".ndjson"}
_CATALOGUES = {".mo", ".po"}


def read_pairs(
    paths: Sequence[str | Path], *, fields: tuple[str, str] = ("source", "target")
) -> list[Pair]:
    """The pairs of files in UTF-8, in order, without space around them; one with an empty side is left out.

    Told by the names: .tsv (source, tab, target; more columns are left out), .jsonl and .ndjson (two fields of an
    object), .mo and .po (gettext's catalogues: the message and its translation, of plurals the first and the last;
    fuzzy and obsolete ones are left out), and any two others, the lines of which belong together one by one.
    A .gz is unpacked, but for a catalogue's.

    Args:
        paths: of the files, of one kind or several; those of lines by two, the source first.
        fields: JSON: those of the source and the target.

    Raises:
        TextError: a file that cannot be read, is not UTF-8 (with the byte) or has another form than its name says
            (with the line); two files of lines of different numbers; or no pair at all.
        ConfigError: a file of lines without its other.
    """
    files = list(map(Path, paths))
    Corpus(tuple(path for path in files if ending(path) not in _CATALOGUES)).check()
    pairs: list[Pair] = []
    waiting: Path | None = None
    for path in files:
        kind = ending(path)
        if kind == ".tsv":
            pairs += _of_columns(path)
        elif kind in _JSON:
            pairs += _of_json(path, fields)
        elif kind in _CATALOGUES:
            pairs += _of_catalogue(path)
        elif waiting is None:
            waiting = path
        else:
            pairs += _of_lines(waiting, path)
            waiting = None
    if waiting is not None:
        raise ConfigError(
            f"{waiting} has no other file beside it; give two files of lines, the source's and the target's, "
            "or .tsv, .jsonl, .mo or .po"
        )
    found = [(source.strip(), target.strip()) for source, target in pairs]
    found = [pair for pair in found if all(pair)]
    if not found:
        raise TextError(f"no pair in {', '.join(map(name_of, files)) or 'no file'}")
    return found


def _of_columns(path: Path) -> Iterator[Pair]:
    for number, line in _lines(path):
        columns = line.split("\t")
        if line.strip() and len(columns) < 2:
            raise TextError(
                f"{name_of(path)}, line {number} has no tab; write the source, a tab, the target"
            )
        yield columns[0], columns[1] if len(columns) > 1 else ""


def _of_json(path: Path, fields: tuple[str, str]) -> Iterator[Pair]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        where = f"{name_of(path)}, line {number}"
        entry = parsed(where, line)
        if not isinstance(entry, dict):
            raise TextError(f"{where} holds {said(entry)}; an object is needed")
        source, target = (_text(where, entry, field) for field in fields)
        yield source, target


def _text(where: str, entry: dict[str, Any], field: str) -> str:
    text = entry.get(field)
    if not isinstance(text, str):
        held = ", ".join(map(repr, list(entry)[:8])) or "none"
        raise TextError(f"{where}: the field {field!r} holds no text; its fields are {held}")
    return whole(where, text)


def _of_lines(source: Path, target: Path) -> Iterator[Pair]:
    sides = [[line for _, line in _lines(path)] for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise TextError(
            f"{name_of(source)} has {len(sides[0]):,} lines and {name_of(target)} {len(sides[1]):,}; "
            "lines that belong together must have one number"
        )
    return zip(*sides, strict=True)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with opened(path) as file:
        yield from lines(path, file)


def _of_catalogue(path: Path) -> Iterator[Pair]:
    for entry in _catalogue(path).translated_entries():
        if not entry.msgid_plural:
            yield entry.msgid, entry.msgstr
            continue
        forms = entry.msgstr_plural
        yield entry.msgid, forms[min(forms)]
        yield entry.msgid_plural, forms[max(forms)]


def _catalogue(path: Path) -> Any:
    try:
        import polib
    except ImportError:
        raise ConfigError(
            f"{path} is a catalogue of gettext, which polib reads: pip install polib"
        ) from None
    with opened(path) as file:
        file.read(1)
    try:
        read = polib.mofile if ending(path) == ".mo" else polib.pofile
        return read(str(path))
    except UnicodeDecodeError as error:
        raise TextError(
            f"{path} is not {error.encoding} text ({error.reason} at {error.start}); convert it to UTF-8"
        ) from None
    except Exception as error:  # a catalogue cut short raises what unpacking its numbers does
        line = str(error).strip().splitlines()
        raise TextError(
            f"{path} cannot be read as a catalogue: {line[0] if line else 'it is broken'}"
        ) from None
