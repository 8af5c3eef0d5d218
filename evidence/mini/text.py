"""The text that the shipped model `mini` was trained on, made from three Debian packages.

    apt-get install bible-kjv && apt-get download jargon-text dict-devil    # unpacked with dpkg -x into FOLDER
    python evidence/mini/text.py FOLDER OUT    # writes OUT/mini.txt, and OUT/mini-held.txt: every 50th document

One document after another, an empty line between them: each chapter of the King James Bible under its name, each
entry of the Jargon File's lexicon and of The Devil's Dictionary under its headword. Lines that were only wrapped
are joined; figures and tables are left out, and so are the Jargon File's braces around other headwords, captions of
cartoons, and the few entries of both dictionaries with slurs or swear words.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

BOOKS = (  # in the order of `bible`, with - for a space
    "Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth 1-Samuel 2-Samuel 1-Kings 2-Kings "
    "1-Chronicles 2-Chronicles Ezra Nehemiah Esther Job Psalms Proverbs Ecclesiastes Song-of-Solomon Isaiah "
    "Jeremiah Lamentations Ezekiel Daniel Hosea Joel Amos Obadiah Jonah Micah Nahum Habakkuk Zephaniah Haggai "
    "Zechariah Malachi Matthew Mark Luke John Acts Romans 1-Corinthians 2-Corinthians Galatians Ephesians "
    "Philippians Colossians 1-Thessalonians 2-Thessalonians 1-Timothy 2-Timothy Titus Philemon Hebrews James "
    "1-Peter 2-Peter 1-John 2-John 3-John Jude Revelation"
)

HELD = 50
"""Each document that comes as this one is held out."""

VERSE = re.compile(r"(\d?[A-Za-z]+)(\d+):\d+ (.+)")
HEADWORD = re.compile(r"[A-Z][A-Z'\- ]+(, [A-Z.]+)*, +(n|adj|adv|v|vb|pp|pro|p|x|interj)\b")
COARSE = re.compile(
    r"nigg|negro|squaw|\bfags?\b|fuck|\bshit|\brap(e|ist)s?\b|nazi|whore|\bcunt", re.IGNORECASE
)
FIGURE = re.compile(r"\S {3,}\S|[─-╿▀-▟═]|[_|/\\=+*.-]{4}")


def bible() -> Iterator[str]:
    """Each chapter: its name, then a verse a line."""
    told = subprocess.run(
        ["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=True
    ).stdout
    verses = [found.groups() for line in told.splitlines() if (found := VERSE.fullmatch(line))]
    names = dict(zip(dict.fromkeys(verse[0] for verse in verses), BOOKS.split(), strict=True))
    for (book, chapter), group in groupby(verses, lambda verse: verse[:2]):
        title = f"{names[book].replace('-', ' ')} {chapter}"
        yield "\n".join([title, *(verse[2].strip() for verse in group)])


def jargon(folder: Path) -> Iterator[str]:
    """Each entry of the lexicon: its headword and what is said, a paragraph a line."""
    text = gzip.decompress(
        (folder / "usr/share/doc/jargon-text/jargon.txt.gz").read_bytes()
    ).decode()
    lexicon = text.split("Part II. The Jargon Lexicon")[-1].split("Part III. Appendices")[0]
    for entry in re.split(r"\n\n(?=   :\S)", lexicon)[1:]:
        parts = [
            part for part in entry.split("\n\n") if part.strip() and not FIGURE.search(part.strip())
        ]
        joined = [" ".join(part.split()) for part in parts]
        told = [part for part in joined if len(part) > 3 and "Crunchly" not in part]
        whole = re.sub(r"\{(\w[^{}\n]*)\}", r"\1", "\n".join(told)).removeprefix(":")
        if len(whole) > 80 and not COARSE.search(whole):
            yield whole


def devil(folder: Path) -> Iterator[str]:
    """Each entry of the dictionary: prose with its wrapped lines joined, verse as it is."""
    text = gzip.decompress((folder / "usr/share/dictd/devil.dict.dz").read_bytes()).decode("ascii")
    entries: list[list[str]] = []
    for part in text.split("\n\n"):
        if HEADWORD.match(part):
            entries.append([])
        if entries and part.strip():
            lines = [" ".join(line.split()) for line in part.splitlines()]
            entries[-1].append(("\n" if part.startswith("  ") else " ").join(lines).strip())
    whole = ("\n".join(entry) for entry in entries)
    yield from (entry for entry in whole if not COARSE.search(entry))


def main(folder: Path, out: Path) -> None:
    """Write both texts, and say of what they are, their sizes and SHA-256."""
    parts = {"bible": [*bible()], "jargon": [*jargon(folder)], "devil": [*devil(folder)]}
    for name, documents in parts.items():
        print(
            f"{name}: {len(documents):,} documents, {sum(len(d.encode()) for d in documents):,} bytes"
        )
    every = [document for documents in parts.values() for document in documents]
    held = every[HELD - 1 :: HELD]
    del every[HELD - 1 :: HELD]
    for name, documents in (("mini.txt", every), ("mini-held.txt", held)):
        content = ("\n\n".join(documents) + "\n").encode()
        (out / name).write_bytes(content)
        told = f"{len(documents):,} documents, {len(content):,} bytes"
        print(f"{name}: {told}, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
