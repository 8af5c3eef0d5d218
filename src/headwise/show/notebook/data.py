"""What a notebook's viewer is given at once, what it asks for later, and what its state may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwise.names import ConfigError, HeadError, HeadId
from headwise.show.page.index import index_of
from headwise.show.page.scene import Scene
from headwise.show.page.starting import checked_start

__all__ = ["AT_ONCE", "answer", "chunks_of", "index_with_rows", "known"]

AT_ONCE = 8_000_000
"""Chunks of no more bytes than this together are in the notebook, which then needs no kernel to be looked at."""

_ROWS = 4096
"""So many rows of a head are given at most in one answer."""


def index_with_rows(scenes: Sequence[Scene], start: Mapping[str, Any]) -> dict[str, Any]:
    """What the viewer reads first: the scenes, and that exact rows can be had of the kernel."""
    live = {"rows": True, "look": False, "cut": False, "flow": False, "fires": False}
    return index_of(scenes, start, {**live, "models": [], "model": scenes[0].record.model})


def chunks_of(
    scenes: Sequence[Scene], most: int = AT_ONCE
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """All chunks one after the other, and where each begins and ends by "scene/key".

    None where they are too many, or of a text so long that only strong cells are kept: a kernel has them all.
    """
    if any(scene.least > 0 for scene in scenes):
        return b"", {}
    parts: list[bytes] = []
    places: dict[str, tuple[int, int]] = {}
    size = 0
    for number, scene in enumerate(scenes):
        for key in scene.keys:
            part = scene.chunk(key)
            places[f"{number}/{key}"] = (size, size + len(part))
            size += len(part)
            if size > most:
                return b"", {}
            parts.append(part)
    return b"".join(parts), places


def answer(scenes: Sequence[Scene], asked: Mapping[str, Any]) -> bytes:
    """The bytes that a viewer asks for: {"what": "chunk", scene, key} or {"what": "rows", scene, head, from, to}.

    Raises:
        ConfigError: it asks for something else.
        HeadError: there is no such head or chunk.
    """
    number = asked.get("scene")
    if not isinstance(number, int) or not 0 <= number < len(scenes):
        raise ConfigError(f"there is no text {number!r} here; there are {len(scenes)}")
    scene = scenes[number]
    if asked.get("what") == "chunk":
        key = asked.get("key")
        if not isinstance(key, str) or not (scene.has(key) or key in scene.all_told):
            raise HeadError(f"there are no cells of {key!r} here")
        return scene.chunk(key)
    first, last = asked.get("from"), asked.get("to")
    if asked.get("what") != "rows" or not isinstance(first, int) or not isinstance(last, int):
        raise ConfigError(f"what is asked for is not known here: {dict(asked)!r}")
    rows = scene.record.layer_of(HeadId.parse(asked["head"])).scores.shape[2]
    if not 0 <= first < last <= min(rows, first + _ROWS):
        raise ConfigError(
            f"rows {first} to {last} cannot be had: there are {rows}, and {_ROWS} at once"
        )
    return scene.rows(asked["head"], first, last)


def known(state: object, scenes: Sequence[Scene]) -> dict[str, Any]:
    """The state itself.

    Raises:
        ConfigError: a name that a view does not have, or a value that is none of its kind.
        HeadError: a head that none of the models has.
    """
    return checked_start(scenes, state, what="a view", anywhere=True)
