"""Token labels as they can be drawn: one line, nothing invisible, a width everyone agrees on."""

from __future__ import annotations

import unicodedata

__all__ = ["one_line"]

_SHOWN = {"\n": "⏎", "\r": "␍", "\t": "⇥", " ": "␣", "\u00a0": "␣", "\u3000": "␣"}
_EMPTY = "∅"


def one_line(label: str) -> str:
    """The label with newlines, tabs and control characters as visible signs.

    Joiners, direction marks, variation selectors and skin tones are left out: terminals and fonts
    disagree on their width, so that a joined emoji is shown as its parts. A lone space shows as
    `␣`; a label with nothing to see shows as `∅`.
    """
    if label and not label.strip():
        return "".join(_SHOWN.get(character, "␣") for character in label)
    return "".join(_visible(character) for character in label) or _EMPTY


def _visible(character: str) -> str:
    if character in " \u00a0\u3000":
        return " "
    if character in _SHOWN:
        return _SHOWN[character]
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF or 0xE0000 <= code <= 0xE0FFF:
        return ""
    category = unicodedata.category(character)
    if category in {"Zl", "Zp"}:
        return "⏎"
    if category in {"Cc", "Cs", "Cn", "Co"}:
        return "�"
    return "" if category == "Cf" else character
