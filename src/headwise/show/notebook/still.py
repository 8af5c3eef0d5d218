"""What a notebook shows where there is no widget: a picture, and where scripts may run, the page in a frame."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from headwise.show.notebook.picture import picture_of
from headwise.show.page.document import document
from headwise.show.page.scene import Scene

__all__ = ["Still", "still_bundle"]

LIVE = "Live: pip install 'headwise[notebook]', and run this cell again"
RERUN = "Live: run this cell in a notebook"
_FRAMED = 4_000_000
"""Pages of no more characters than this go into a frame; of longer texts there is the picture alone."""


def still_bundle(
    scenes: Sequence[Scene], note: str = RERUN
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A picture of the first record as a notebook keeps it, and its words for who cannot see it."""
    image, says = picture_of(scenes[0].record, scenes[0].summaries, note)
    return {"image/png": image, "text/plain": says}, {"image/png": {"alt": says}}


class Still:
    """The page in a frame and a picture, for a Python without anywidget."""

    def __init__(self, scenes: Sequence[Scene], start: dict[str, Any], height: str = "") -> None:
        self._scenes, self._start, self._height = tuple(scenes), start, height or "720px"

    def __repr__(self) -> str:
        return f"{self._scenes[0].record!r}. {LIVE}; or into a file: headwise look TEXT --html FILE"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, told = still_bundle(self._scenes, LIVE)
        framed = self._frame()
        if framed:
            data["text/html"] = framed
        return {**data, "text/plain": repr(self)}, told

    def _frame(self) -> str:
        """The page as an element that runs its script apart from the notebook; "" where it is too long."""
        if any(scene.least > 0 for scene in self._scenes):
            return ""
        page = "".join(document(self._scenes, self._start))
        if len(page) > _FRAMED:
            return ""
        title = html.escape(f"Heads of {self._scenes[0].record.model}", quote=True)
        style = html.escape(f"width:100%;height:{self._height};border:0", quote=True)
        return (
            f'<iframe title="{title}" style="{style}" sandbox="allow-scripts allow-downloads" '
            f'srcdoc="{html.escape(page, quote=True)}"></iframe>\n<p>{html.escape(LIVE)}.</p>'
        )
