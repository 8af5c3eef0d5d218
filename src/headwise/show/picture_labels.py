"""Labels of a picture: how many fit on an axis, how they stand, how a caption wraps."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from matplotlib.axis import Axis, XAxis

from headwise.show.labels import one_line

__all__ = ["label_axis", "width_of", "wrapped"]

_LINE_INCHES = 0.125
"""Room a line of a label takes."""
_HALF_INCHES = 0.062
"""Width of a Latin letter of a label, roughly; a Chinese character takes two."""
_LONGEST = 16


def label_axis(axis: Axis, name: str, labels: Sequence[str], inches: float) -> None:
    """Name an axis and its cells, every k-th where `inches` per cell leave no room for all.

    On the horizontal axis labels lie flat where all fit into their cells; else Chinese and other
    wide characters stand upright one below another, and the rest is turned. A text is never read
    as mathematics, whatever dollar signs it holds.
    """
    step = max(1, math.ceil(_LINE_INCHES / inches))
    shown = [_cut(one_line(label), _LONGEST) for label in labels[::step]]
    places = [place + 0.5 for place in range(0, len(labels), step)]
    across = isinstance(axis, XAxis)
    flat = not across or all(width_of(text) * _HALF_INCHES < inches * step for text in shown)
    upright = [text if flat or not _wide(text) else "\n".join(text) for text in shown]
    axis.set_ticks(places, labels=upright)
    for label, text in zip(axis.get_ticklabels(), shown, strict=True):
        label.set_parse_math(False)
        label.set_linespacing(0.95)
        if not flat and len(text) > 1 and not _wide(text):
            label.set_rotation(90)
    axis.set_label_text(name if step == 1 else f"{name} (1 in {step} named)")
    axis.set_tick_params(length=2 if step > 1 else 0, width=0.5, pad=2)


def width_of(text: str) -> int:
    """Width in letters: 2 for a Chinese character or an emoji, 0 for a combining mark."""
    return sum(
        0 if unicodedata.combining(character) else 1 + _is_wide(character) for character in text
    )


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most `width`; Chinese text breaks between any two characters."""
    lines = []
    for paragraph in text.splitlines():
        line = ""
        for piece in _pieces(paragraph):
            if line and width_of(line + piece.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
        lines.append(line.rstrip())
    return "\n".join(lines)


def _pieces(text: str) -> list[str]:
    """The text cut where a line may end: after a space and after a wide character."""
    pieces = [""]
    for character in text:
        pieces[-1] += character
        if character == " " or _is_wide(character):
            pieces.append("")
    return pieces


def _cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    while width_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _wide(text: str) -> bool:
    return all(_is_wide(character) or character == "…" for character in text)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in {"W", "F"}
