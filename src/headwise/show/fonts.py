"""Fonts that can draw the labels of a picture, whatever their script.

Nothing is bundled or fetched: the fonts of the machine are searched, families for Chinese, Japanese
and Korean first, and what none of them can draw is told in one warning.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache

from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FT2Font

__all__ = ["MissingGlyphWarning", "families_for"]

_LATIN = ("Arial", "Liberation Sans", "DejaVu Sans")
_PREFERRED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "SimHei",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Noto Sans CJK KR",
    "Heiti TC",
    "Noto Emoji",
)
_UNFIT = re.compile(r"Last ?Resort|cm[a-z]+10$|.*Color Emoji")
"""Fonts of placeholder signs, of mathematics in an encoding of its own, and of bitmaps that cannot be drawn."""
_ADVICE = {
    "CJK": "a Chinese font such as Noto Sans CJK (fonts-noto-cjk)",
    "HIRAGANA": "a Japanese font such as Noto Sans CJK (fonts-noto-cjk)",
    "KATAKANA": "a Japanese font such as Noto Sans CJK (fonts-noto-cjk)",
    "HANGUL": "a Korean font such as Noto Sans CJK (fonts-noto-cjk)",
}
_OTHER_ADVICE = "a font for them, for instance of the Noto family or, for emoji, Symbola"
_TOLD = 8


class MissingGlyphWarning(UserWarning):
    """Some characters of a picture have no font on this machine and show as placeholder signs."""


def families_for(texts: Iterable[str], fonts: Sequence[FontEntry] | None = None) -> list[str]:
    """The font families that together draw the texts, the plain Latin one first.

    Args:
        texts: everything that will be written.
        fonts: the fonts to choose from; by default all that matplotlib finds on this machine.

    Warns:
        MissingGlyphWarning: once, with the characters that no font has and what to install.
    """
    known = _upright(font_manager.fontManager.ttflist if fonts is None else fonts)
    first = next((name for name in _LATIN if name in known), None)
    order = [name for name in (first, *_PREFERRED) if name in known and name is not None]
    order += [name for name in sorted(known, key=_plain_first) if name not in order]
    missing = _wanted(texts)
    chosen = [] if first is None else [first]
    for name in order:
        drawn = {character for character in missing if ord(character) in _charmap(known[name])}
        if drawn and name not in chosen:
            chosen.append(name)
        missing -= drawn
        if not missing:
            break
    if missing:
        warnings.warn(_words(missing), MissingGlyphWarning, stacklevel=3)
    return [*chosen, "sans-serif"]


def _upright(fonts: Sequence[FontEntry]) -> dict[str, tuple[str, int]]:
    """File and face of each family's upright face of normal weight."""
    found: dict[str, tuple[str, int]] = {}
    for font in fonts:
        plain = font.style == "normal" and font.weight in (400, "normal", "regular", "book")
        if plain and not _UNFIT.match(font.name):
            found.setdefault(font.name, (font.fname, getattr(font, "index", 0)))
    return found


def _plain_first(name: str) -> tuple[bool, str]:
    return ("Serif" in name or "Mono" in name or "Math" in name, name)


@lru_cache(maxsize=64)
def _charmap(face: tuple[str, int]) -> frozenset[int]:
    """The code points a font file's face can draw; empty for a file that cannot be read."""
    path, index = face
    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return frozenset(font.get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _wanted(texts: Iterable[str]) -> set[str]:
    return {
        character
        for text in texts
        for character in text
        if not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf"}
    }


def _words(missing: set[str]) -> str:
    characters = sorted(missing)
    shown = " ".join(characters[:_TOLD]) + (" …" if len(characters) > _TOLD else "")
    scripts = dict.fromkeys(
        unicodedata.name(character, "UNKNOWN").split(" ")[0].split("-")[0]
        for character in characters
    )
    advice = dict.fromkeys(_ADVICE.get(script, _OTHER_ADVICE) for script in scripts)
    return (
        f"no font on this machine draws {len(characters)} of the characters ({shown}), so "
        f"placeholder signs stand in the picture: install {' and '.join(advice)}"
    )
