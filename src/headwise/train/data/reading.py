"""Documents of files: a file each, a line each, a paragraph each, or the objects of JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from headwise.names import ConfigError
from headwise.see.texts.corpus import Corpus

__all__ = ["By", "read_documents"]

By = Literal["file", "line", "paragraph"]
"""What one document is."""

_BLANK = re.compile(r"\r?\n(?:[^\S\n]*\n)+")


def read_documents(
    paths: Sequence[str | Path], *, by: By = "file", field: str | None = None
) -> list[str]:
    """The documents of text files in UTF-8, in order; those of nothing but space are left out.

    A .jsonl or .ndjson file has one document a line, an object's field or a plain string; a .gz is unpacked, and
    `-` is the standard input.

    Args:
        paths: of the files.
        by: what one document of a plain text is: the whole "file" but for its last line end, each "line", or each
            "paragraph", between blank lines.
        field: JSON: the field that holds the text, None = `text`.

    Raises:
        TextError: a file that is missing, a folder, may not be read or is not UTF-8 (with the byte), JSON that
            cannot be read (with the line); or no text in any of them.
        ConfigError: `by` is none of the three.
    """
    if by not in get_args(By):
        raise ConfigError(f"by={by!r} is not known; use one of {', '.join(get_args(By))}")
    corpus = Corpus(tuple(map(Path, paths)), lines=by == "line", field=field)
    corpus.check()
    texts = list(corpus.texts())
    if by != "paragraph":
        return texts
    return [part for text in texts for part in _BLANK.split(text) if part.strip()]
