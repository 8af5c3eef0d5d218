"""Numbers and heads in words, the same wherever cutting is shown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from headwise.names import HeadId, LayerId

__all__ = ["bytes_said", "figure", "heads_said", "seconds_said", "signed", "sized"]


def figure(x: float) -> str:
    """A number in three or four digits, as 3.649, .0123, 12.34 or 1,234."""
    size = abs(x)
    if size >= 999.5:
        return f"{x:,.0f}"
    if 0 < size < 0.001:
        return f"{x:.1e}".replace("e-0", "e-")
    digits = 1 if size >= 99.95 else 2 if size >= 9.995 else 3
    if 0 < size < 0.0995:
        digits = 2 - math.floor(math.log10(size))
    return _bare(f"{x:.{digits}f}")


def signed(x: float) -> str:
    """The same with its sign, as +.138 or -.002; a plain 0 has none."""
    told = figure(x)
    return f"+{told}" if x > 0 else told


def heads_said(heads: Iterable[HeadId]) -> str:
    """Heads as ranges of each layer, as `17.3-5, 18.6`."""
    layers: dict[LayerId, list[int]] = {}
    for id in heads:
        layers.setdefault(id.layer_id, []).append(id.head)
    return ", ".join(
        f"{layer}.{part}" for layer, held in layers.items() for part in _ranges(sorted(held))
    )


def sized(count: int) -> str:
    """A count in units, as 134.5 M, 12.3 k or 17."""
    for ten, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= ten:
            return f"{count / ten:.1f} {unit}"
    return str(count)


def bytes_said(count: int) -> str:
    """Bytes in units, as 22.5 KiB."""
    for ten, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << ten:
            return f"{count / (1 << ten):.1f} {unit}"
    return f"{count} B"


def seconds_said(seconds: float) -> str:
    """A time in units, as 1.234 s, 12.34 ms or 123.4 µs."""
    for part, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= part:
            return f"{figure(seconds / part)} {unit}"
    return f"{figure(seconds * 1e6)} µs"


def _ranges(numbers: list[int]) -> list[str]:
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    found = []
    for _, run in runs:
        held = [number for _, number in run]
        found.append(f"{held[0]}" if len(held) == 1 else f"{held[0]}-{held[-1]}")
    return found


def _bare(text: str) -> str:
    """Without the 0 before the point."""
    if text.startswith("0."):
        return text[1:]
    return f"-{text[2:]}" if text.startswith("-0.") else text
