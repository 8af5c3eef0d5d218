"""A corpus on disk: files of several kinds as texts, one after the other, no file held whole but a document.

Kinds, told by the name (a .gz behind it is unpacked): .jsonl and .ndjson (one text per line, as an object's
field or a plain string), .conllu (the sentences of its `# text =` comments), and anything else as plain text,
where a file is one document but for its last line end, or each line a text. `-` is the standard input, as plain
text unless a field is named. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headwise.names import TextError
from headwise.see.texts.reading import (
    FIRST,
    TEXT_COMMENT,
    check_input,
    check_start,
    decoded,
    ending,
    kind,
    lines,
    name_of,
    opened,
    parsed,
    readable,
    said,
    whole,
)

__all__ = ["Corpus"]

_FIELD = "text"
_JSON = {".jsonl", ".ndjson"}
_CONLLU = ".conllu"


@dataclass(frozen=True)
class Corpus:
    """Files and how to read them.

    Attributes:
        files: paths; `-` is the standard input.
        lines: plain text: each line that holds something is a text, not the file as a whole.
        field: JSON: the field that holds the text, None = `text`. With it the standard input is JSON lines.
        limit: at most so many texts; None = all.
    """

    files: tuple[Path, ...]
    lines: bool = False
    field: str | None = None
    limit: int | None = None

    def check(self) -> None:
        """Refuse what can be told without reading it all.

        Raises:
            TextError: a file that is missing, a folder, may not be read, or does not begin as text.
        """
        for path in self.files:
            if str(path) == "-":
                check_input()
            elif kind(path) == "file":
                with opened(path) as file, readable(path):
                    check_start(path, file.read(FIRST))

    def texts(self) -> Iterator[str]:
        """The texts in order, read as they are asked for; those of nothing but space are left out.

        Raises:
            TextError: at a line that cannot be read, with its file and number; after the last text, where
                there was none.
        """
        found = (text for path in self.files for text in self._of(path) if text.strip())
        count = 0
        for text in found if self.limit is None else islice(found, self.limit):
            count += 1
            yield text
        if not count:
            raise TextError(f"no text in {', '.join(name_of(path) for path in self.files)}")

    def count(self) -> int | None:
        """How many texts there are, where that is quick to tell: a reading of plain files; else None."""
        if any(str(path) == "-" or kind(path) != "file" for path in self.files):
            return None
        if any(path.suffix == ".gz" for path in self.files):
            return None
        found = sum(self._count(path) for path in self.files)
        return found if self.limit is None else min(found, self.limit)

    def size(self) -> int | None:
        """How many bytes of text there are, where each file is one document whose size can be told; else None."""
        if self.lines or self.limit is not None or any(str(path) == "-" for path in self.files):
            return None
        plain = [path for path in self.files if ending(path) not in {*_JSON, _CONLLU}]
        if len(plain) < len(self.files) or any(path.suffix == ".gz" for path in plain):
            return None
        return sum(path.stat().st_size for path in plain if kind(path) == "file") or None

    def _count(self, path: Path) -> int:
        suffix = ending(path)
        if suffix != _CONLLU and suffix not in _JSON and not self.lines:
            return 1
        start = TEXT_COMMENT.encode() if suffix == _CONLLU else b""
        with opened(path) as file, readable(path):
            return sum(1 for line in file if line.startswith(start) and line.strip())

    def _of(self, path: Path) -> Iterator[str]:
        suffix = ending(path)
        piped_json = str(path) == "-" and self.field is not None
        with opened(path) as file:
            if suffix in _JSON or piped_json:
                for number, line in lines(path, file):
                    if line.strip():
                        yield self._of_json(path, number, line)
            elif suffix == _CONLLU:
                for _, line in lines(path, file):
                    if line.startswith(TEXT_COMMENT):
                        yield line.removeprefix(TEXT_COMMENT).strip()
            elif self.lines:
                yield from (line for _, line in lines(path, file))
            else:
                with readable(path):
                    data = file.read()
                yield decoded(path, data).removesuffix("\n").removesuffix("\r")

    def _of_json(self, path: Path, number: int, line: str) -> str:
        where = f"{name_of(path)}, line {number}"
        entry = parsed(where, line)
        return whole(where, entry if isinstance(entry, str) else self._of_object(where, entry))

    def _of_object(self, where: str, entry: object) -> str:
        if not isinstance(entry, dict):
            raise TextError(f"{where} holds {said(entry)}; an object or a string is needed")
        field = self.field or _FIELD
        if field not in entry:
            held = ", ".join(map(repr, list(entry)[:8])) or "none"
            raise TextError(
                f"{where} has no field {field!r}; its fields are {held}: choose one with --field"
            )
        text = entry[field]
        if not isinstance(text, str):
            raise TextError(f"{where}: the field {field!r} holds {said(text)}, not a text")
        return text
