"""What a view may start with: the names of `state.js`, each with values of its own kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwise.names import ConfigError, HeadError, HeadId
from headwise.show.page.bundle import state_names
from headwise.show.page.scene import Scene

__all__ = ["beginning", "checked_start"]

_CHOICES = {
    "tab": ("map", "lines", "compare", "masks", "neurons", "cut"),
    "scope": ("head", "layer", "all"),
    "unit": ("tokens", "words"),
    "first": ("shown", "hidden", "renormalised"),
    "separators": ("shown", "hidden", "renormalised"),
}


def checked_start(
    scenes: Sequence[Scene], start: object, *, what: str = "start", anywhere: bool = False
) -> dict[str, Any]:
    """What a view starts with, as JSON takes it.

    Args:
        scenes: that are shown.
        start: by the names in the address of a view.
        what: it is called in an error.
        anywhere: a head may be of another scene than the one that is named.

    Raises:
        ConfigError: no mapping, a name that no view has, or a value that is none of its kind.
        HeadError: a head that is not there.
    """
    if not isinstance(start, Mapping):
        raise ConfigError(
            f"{what} takes names and values ({{'head': '18.6'}}), came {_came(start)}"
        )
    names = state_names()
    for name in start:
        if name not in names:
            raise ConfigError(f"{what} has no {name!r}; its names are {', '.join(names)}")
    found = {name: _KINDS[name](f"{what} {name!r}", value, scenes) for name, value in start.items()}
    scene, beside = found.get("scene", 0), found.get("withScene")
    _check_head(scenes, found.get("head", ""), scene, anywhere)
    _check_head(scenes, found.get("withHead", ""), scene if beside is None else beside, anywhere)
    return found


def beginning(scenes: Sequence[Scene], start: object, **asked: Any) -> dict[str, Any]:
    """What a view starts with; where no head is named, with the most telling one.

    Args:
        scenes: that are shown.
        start: by the names in the address of a view; None = nothing is asked for.
        asked: as `checked_start` takes them, which says what it raises.
    """
    found = checked_start(scenes, {} if start is None else start, **asked)
    return {**found, "head": found.get("head") or scenes[found.get("scene", 0)].opens}


def _check_head(scenes: Sequence[Scene], head: str, at: int, anywhere: bool) -> None:
    """Refuse a head, or a mean, that is not there."""
    if not head or (anywhere and any(scene.has(head) for scene in scenes)):
        return
    if scenes[at].has(head):
        return
    if not head.startswith("mean/"):
        scenes[at].record.layer_of(HeadId.parse(head))
    raise HeadError(f"there is no mean {head!r}: {', '.join(scenes[at].means)} are there")


def _scene(name: str, value: object, scenes: Sequence[Scene]) -> int:
    number = _whole(value)
    if number is None or number >= len(scenes):
        raise ConfigError(f"{name} takes a text from 0 to {len(scenes) - 1}, came {_came(value)}")
    return number


def _scene_or_none(name: str, value: object, scenes: Sequence[Scene]) -> int | None:
    return None if value is None else _scene(name, value, scenes)


def _head(name: str, value: object, scenes: Sequence[Scene]) -> str:
    if isinstance(value, str | HeadId):
        return str(value)
    raise ConfigError(f"{name} takes a head like {scenes[0].keys[0]!r}, came {_came(value)}")


def _text(name: str, value: object, scenes: Sequence[Scene]) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(f"{name} takes a name, came {_came(value)}")


def _choice(name: str, value: object, scenes: Sequence[Scene]) -> str:
    choices = _CHOICES[name.split("'")[-2]]
    if isinstance(value, str) and value in choices:
        return value
    raise ConfigError(f"{name} takes {', '.join(choices)}, came {_came(value)}")


def _number(name: str, value: object, scenes: Sequence[Scene]) -> int | None:
    number = _whole(value)
    if number is None and value is not None:
        raise ConfigError(f"{name} takes a number from 0, or None, came {_came(value)}")
    return number


def _flag(name: str, value: object, scenes: Sequence[Scene]) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{name} takes True or False, came {_came(value)}")


def _zoom(name: str, value: object, scenes: Sequence[Scene]) -> list[int] | None:
    if value is None:
        return None
    ends = [_whole(one) for one in value] if isinstance(value, list | tuple) else []
    numbers = [one for one in ends if one is not None]
    if len(ends) == 4 and len(numbers) == 4 and numbers[0] < numbers[1] and numbers[2] < numbers[3]:
        return numbers
    raise ConfigError(
        f"{name} takes [first query, end, first key, end], or None for all, came {_came(value)}"
    )


def _whole(value: object) -> int | None:
    """A whole number from 0; None for what is none."""
    if isinstance(value, bool):
        return None
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return number if number >= 0 else None


def _came(value: object) -> str:
    """What came, in a few characters."""
    plain = value is None or isinstance(value, str | int | float | list | tuple)
    said = repr(value) if plain else f"a {type(value).__name__}"
    return said if len(said) <= 60 else f"{said[:59]}…"


_Kind = Callable[[str, object, Sequence[Scene]], Any]

_KINDS: dict[str, _Kind] = {
    "scene": _scene,
    "head": _head,
    **dict.fromkeys(_CHOICES, _choice),
    "colour": _text,
    "kind": _text,
    "query": _number,
    "key": _number,
    "pinned": _flag,
    "withScene": _scene_or_none,
    "withHead": _head,
    "layer": _number,
    "zoom": _zoom,
}
