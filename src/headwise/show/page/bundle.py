"""The modules of the viewer as one script.

A page in one file and a notebook take one script, so the modules an entry needs are put one after the other, each
in a function of its own that gives what it exports, without the comments and indentation that it can spare.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from headwise.names import ConfigError

__all__ = ["script", "state_names", "style"]

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w-]+)\.js";$', re.MULTILINE)
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
    """The names of what a view starts with, as `state.js` has them."""
    start = re.search(r"^export const START = \{\n(.*?)^\};", _read("state.js"), re.M | re.S)
    assert start is not None
    return re.findall(r"^  (\w+):", start[1], re.M)


@cache
def style() -> str:
    """The viewer's stylesheets, `base.css` first."""
    web = files("headwise.show") / "web" / "viewer"
    names = sorted(part.name for part in web.iterdir() if part.name.endswith(".css"))
    return "\n".join(_read(name) for name in sorted(names, key=lambda n: n != "base.css"))


def _add(name: str, done: dict[str, str], above: tuple[str, ...]) -> None:
    """Put a module behind all that it needs."""
    if name in above:
        raise ConfigError(f"the modules {' > '.join((*above, name))} import each other")
    if name in done:
        return
    text = _SPARED.sub("", _read(f"{name}.js"))
    for _, needed in _IMPORT.findall(text):
        _add(needed, done, (*above, name))
    done[name] = _IMPORT.sub(lambda found: f"const {found[1]} = {_name(found[2])};", text)


def _wrapped(name: str, text: str) -> str:
    """A module as a function that gives its exports."""
    exports = ", ".join(found for _, found in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1 \2", text)
    return f"const {_name(name)} = (() => {{\n{body}return {{ {exports} }};\n}})();"


def _name(module: str) -> str:
    return "$" + module.replace("-", "_")


def _read(name: str) -> str:
    return (files("headwise.show") / "web" / "viewer" / name).read_text(encoding="utf-8")
