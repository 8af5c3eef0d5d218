"""What a viewer reads first, the same in a file, a notebook and on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwise import __version__
from headwise.show.page.scene import Scene

__all__ = ["index_of"]


def index_of(
    scenes: Sequence[Scene],
    start: Mapping[str, Any] | None = None,
    live: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The index of a view, as JSON takes it.

    Args:
        scenes: what is shown, the first one first.
        start: what the view starts with, by the names of `state.js` (head, tab, ...).
        live: what can be asked for while it is shown; None = nothing, as of a file.
    """
    return {
        "version": __version__,
        "scenes": [scene.index for scene in scenes],
        "start": dict(start or {}),
        "live": None if live is None else dict(live),
    }
