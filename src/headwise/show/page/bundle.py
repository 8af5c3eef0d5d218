"""The modules of the viewer as one script.

A page in one file and a notebook take one script, so the modules an entry needs are put one after the other,
without their imports. All their names are different; a test refuses two that are alike.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

__all__ = ["script", "state_names", "style"]

_IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


@cache
def script(entry: str) -> str:
    """An entry ("file.js") with all that it imports, as one ES module that imports nothing.

    Raises:
        FileNotFoundError: it, or a module it needs, is not among the viewer's.
    """
    done: dict[str, str] = {}
    _add(entry, done)
    return "\n".join(done.values())


@cache
def style() -> str:
    """The viewer's stylesheets, `base.css` first."""
    web = files("headwise.show") / "web" / "viewer"
    names = sorted(part.name for part in web.iterdir() if part.name.endswith(".css"))
    return "\n".join(_read(name) for name in sorted(names, key=lambda n: n != "base.css"))


@cache
def state_names() -> list[str]:
    """The names of what a view starts with, as `state.js` has them."""
    start = re.search(r"^export const START = \{\n(.*?)^\};", _read("state.js"), re.M | re.S)
    assert start is not None
    return re.findall(r"^  (\w+):", start[1], re.M)


def _add(name: str, done: dict[str, str]) -> None:
    if name in done:
        return
    text = _read(name)
    done[name] = ""  # of two that import each other, the first one comes last
    for needed in _IMPORT.findall(text):
        _add(needed, done)
    done.pop(name)
    done[name] = _EXPORT.sub("", _IMPORT.sub("", text))


def _read(name: str) -> str:
    return (files("headwise.show") / "web" / "viewer" / name).read_text(encoding="utf-8")
