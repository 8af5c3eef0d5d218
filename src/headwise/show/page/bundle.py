"""The modules of the viewer as one script.

A page in one file and a notebook take one script, so the modules an entry needs are put one after the other, each
in a function of its own that gives what it exports, without the comments and indentation that it can spare.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from headwise.names import ConfigError

__all__ = ["script", "state_names", "style"]

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.\.?/[\w/-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(
    r"^export ((?:async )?function\*?|const|let|class) ([\w$]+)(?=\W)", re.MULTILINE
)

_SPARED = re.compile(r"^[ \t]*(?://.*\n|/\*\*(?:[^*]|\*(?!/))*\*/\n)|^[ \t]+", re.MULTILINE)


@cache
def script(entry: str) -> str:
    """An entry ("file.js") with all that it imports, as one ES module that imports nothing.

    Raises:
        FileNotFoundError: it, or a module it needs, is not among the viewer's.
        ConfigError: two modules import each other, which one script cannot hold.
    """
    done: dict[str, str] = {}
    main = entry.removesuffix(".js")
    _add(main, done, ())
    *parts, last = done
    return "\n".join([*(_wrapped(name, done[name]) for name in parts), done[last]])


@cache
def state_names() -> list[str]:
    """The names of what a view starts with, as `data/state.js` has them."""
    start = re.search(r"^export const START = \{\n(.*?)^\};", _read("data/state.js"), re.M | re.S)
    assert start is not None
    return re.findall(r"^  (\w+):", start[1], re.M)


@cache
def style() -> str:
    """The viewer's stylesheets, `base.css` first."""
    rooms = [room.name for room in _viewer().iterdir() if room.is_dir()]
    sheets = [
        (part.name != "base.css", part.name, room)
        for room in rooms
        for part in (_viewer() / room).iterdir()
        if part.name.endswith(".css")
    ]
    return "\n".join(_read(f"{room}/{name}") for _, name, room in sorted(sheets))


def _add(name: str, done: dict[str, str], above: tuple[str, ...]) -> None:
    """Put a module behind all that it needs."""
    if name in above:
        raise ConfigError(f"the modules {' > '.join((*above, name))} import each other")
    if name in done:
        return
    text, room = _SPARED.sub("", _read(f"{name}.js")), posixpath.dirname(name)
    for _, needed in _IMPORT.findall(text):
        _add(_from(room, needed), done, (*above, name))
    done[name] = _IMPORT.sub(
        lambda found: f"const {found[1]} = {_name(_from(room, found[2]))};", text
    )


def _from(room: str, needed: str) -> str:
    """What a module in a room calls another, as it is called from the viewer's folder."""
    return posixpath.normpath(posixpath.join(room, needed))


def _wrapped(name: str, text: str) -> str:
    """A module as a function that gives its exports."""
    exports = ", ".join(found for _, found in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1 \2", text)
    return f"const {_name(name)} = (() => {{\n{body}return {{ {exports} }};\n}})();"


def _name(module: str) -> str:
    return "$" + re.sub(r"\W", "_", module)


def _viewer() -> Traversable:
    return files("headwise.show") / "web" / "viewer"


def _read(name: str) -> str:
    return _viewer().joinpath(*name.split("/")).read_text(encoding="utf-8")
