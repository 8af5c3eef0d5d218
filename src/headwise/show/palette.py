"""Colours, codes and shades shared by the terminal and the pictures.

The kinds have colours after Okabe and Ito (2008), told apart by colour-blind readers. "first" has a
quiet one instead, near the paper: in most models most heads rest on the first token, and would drown
the telling ones. It is lighter than every other, and ivory in a terminal of 256 colours at any mass.
The weights have a scale of one hue that only grows darker (ColorBrewer "Blues"), which survives grey
printing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = [
    "INK",
    "PAPER",
    "RGB",
    "SHADES",
    "STEPS",
    "STRONG",
    "Kind",
    "hex_of",
    "ink_on",
    "kind_shade",
    "kv_starts",
    "scale_top",
    "terminal_shade",
    "weight_shade",
]

RGB = tuple[int, int, int]

INK: RGB = (25, 25, 25)
PAPER: RGB = (255, 255, 255)
STRONG = 0.5
"""A head of at least this mass is shown strong: a capital letter where there is no colour."""


@dataclass(frozen=True)
class Kind:
    """How one kind of head is shown: its name, a code for a strong and for a weak head, and a colour."""

    does: str
    strong: str
    weak: str
    colour: RGB

    @property
    def codes(self) -> str:
        """Both codes, or the one there is."""
        return self.strong if self.strong == self.weak else f"{self.strong} {self.weak}"


SHADES = "·░▒▓█"
"""Visible weights, weakest first; a cell that may not be seen is blank instead."""
STEPS = (0.05, 0.2, 0.4, 0.7)
"""Where the next shade begins, as parts of the top of the scale."""

_PARTS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
_TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_BLUES: tuple[RGB, ...] = (
    (247, 251, 255),
    (198, 219, 239),
    (107, 174, 214),
    (33, 113, 181),
    (8, 48, 107),
)
_TERMINAL_BLUES: tuple[RGB, ...] = (
    (215, 255, 255),
    (175, 215, 255),
    (95, 175, 215),
    (0, 95, 175),
    (0, 0, 95),
)


def kind_shade(kind: Kind, mass: float) -> RGB:
    """The kind's colour, paler for less mass (0 to 1) but never so pale that the hue is lost."""
    return _mix(PAPER, kind.colour, 0.3 + 0.7 * min(max(mass, 0.0), 1.0))


def weight_shade(part: float) -> RGB:
    """The colour of a weight given as a part (0 to 1) of the top of the scale: darker is more."""
    place = min(max(part, 0.0), 1.0) * (len(_BLUES) - 1)
    low = min(int(place), len(_BLUES) - 2)
    return _mix(_BLUES[low], _BLUES[low + 1], place - low)


def terminal_shade(step: int) -> RGB:
    """The colour of a weight in step 0 to 4 of STEPS: ones that a terminal of 256 colours has exactly."""
    return _TERMINAL_BLUES[step]


_ROUNDED_1 = 1.001
"""A weight summed over a word's tokens may be a rounding above 1."""


def scale_top(weights: Float[np.ndarray, "*axes"]) -> float:
    """The number at the dark end: the smallest of 0.01, 0.02, 0.05, ... 1 that holds them all.

    Beyond 1 (norms) it is one of 1, 1.5, 2, 3, ... 6, 8, 10 of their power of ten, so that the largest is dark.
    """
    seen = weights[np.isfinite(weights)]
    largest = float(seen.max()) if seen.size else 0.0
    if largest <= _ROUNDED_1:
        return next((top for top in _TOPS if largest <= top), 1.0)
    ten = 10.0 ** math.floor(math.log10(largest))
    return next(part * ten for part in _PARTS if largest <= part * ten * (1 + 1e-9))


def kv_starts(groups: dict[int, int]) -> tuple[int, ...]:
    """The heads at which a new KV group begins, from the group of each head.

    Empty where there is nothing to part: every head has its own group, or all heads share one.
    """
    heads = sorted(groups)
    starts = tuple(
        head for before, head in itertools.pairwise(heads) if groups[before] != groups[head]
    )
    return starts if len(set(groups.values())) < len(heads) else ()


def ink_on(colour: RGB) -> RGB:
    """Black or white, whichever reads better on the colour."""
    red, green, blue = colour
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else PAPER


def hex_of(colour: RGB) -> str:
    """The colour as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _mix(start: RGB, end: RGB, part: float) -> RGB:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(start, end, strict=True))
    return red, green, blue
