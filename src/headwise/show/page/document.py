"""The viewer as one HTML file that holds its style, its script and its data, and asks nothing of the network."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.files import replacing
from headwise.show.page.bundle import script, style
from headwise.show.page.index import index_of
from headwise.show.page.scene import Scene

__all__ = ["document", "save_document"]

_WAITING = "Reading the page; where this line stays, the file was cut short or no script may run."


def document(
    scenes: Sequence[Scene],
    start: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """The parts of the file, in order.

    Args:
        scenes: what is shown, the first one first.
        start: what the view starts with, by the names of `state.js` (head, tab, ...).
        progress: called as progress(chunks done, chunks in all).
    """
    total, done = sum(len(scene.keys) for scene in scenes), 0
    index = index_of(scenes, start)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="generator" content="headwise">\n<link rel="icon" href="data:,">\n'
    yield f"<title>{html.escape(_title(scenes))}</title>\n<style>\n{style()}</style>\n</head>\n"
    yield f'<body>\n<main id="viewer"><p>{_WAITING}</p></main>\n'
    yield "<noscript><p>This page draws with a script; it asks nothing of the network.</p></noscript>\n"
    yield f'<script type="application/json" id="index">{_safe(index)}</script>\n'
    for number, scene in enumerate(scenes):
        for key in scene.keys:
            name = html.escape(f"{number}/{key}", quote=True)
            data = base64.b64encode(scene.chunk(key)).decode()
            yield f'<script type="application/octet-stream" data-chunk="{name}">{data}</script>\n'
            done += 1
            if progress is not None:
                progress(done, total)
    yield f'<script type="module">\n{script("file.js")}</script>\n</body>\n</html>\n'


def save_document(
    scenes: Sequence[Scene],
    path: str | Path,
    start: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the file, whole or not at all; the arguments are those of `document`.

    Raises:
        OutputError: a path that cannot be written.
    """
    with (
        replacing(Path(path), "the page") as place,
        place.open("w", encoding="utf-8", errors="replace") as file,
    ):
        file.writelines(document(scenes, start, progress))


def _title(scenes: Sequence[Scene]) -> str:
    first = scenes[0].record
    text = " ".join(first.text.split())
    return f"{text[:60]}{'…' if len(text) > 60 else ''} – {first.model} – headwise"


def _safe(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")  # nothing in it ends the script
