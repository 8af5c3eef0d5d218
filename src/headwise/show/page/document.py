"""The viewer as one HTML file that holds its style, its script and its data, and asks nothing of the network."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.files import replacing
from headwise.show.page.frame import closing, data_element, opening
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
    yield opening(_title(scenes), f"<p>{_WAITING}</p>")
    yield data_element("index", index)
    for number, scene in enumerate(scenes):
        for key in scene.keys:
            name = html.escape(f"{number}/{key}", quote=True)
            data = base64.b64encode(scene.chunk(key)).decode()
            yield f'<script type="application/octet-stream" data-chunk="{name}">{data}</script>\n'
            done += 1
            if progress is not None:
                progress(done, total)
    yield closing("file.js")


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
