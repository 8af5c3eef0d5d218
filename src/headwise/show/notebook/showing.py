"""view: records in a notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from headwise.names import ConfigError
from headwise.see.record import Record
from headwise.show.notebook.data import AT_ONCE
from headwise.show.notebook.still import Still
from headwise.show.page.saving import records_of, scenes_of
from headwise.show.page.starting import beginning
from headwise.show.page.tables import Table

__all__ = ["view"]

_LENGTH = re.compile(
    r"(?=.*[1-9])\d*\.?\d+(px|em|rem|ex|ch|lh|vh|vw|dvh|svh|lvh|vmin|vmax|cm|mm|in|pt|pc|%)"
)


def view(
    records: Record | Sequence[Record],
    *,
    tables: Sequence[Table] = (),
    start: Mapping[str, Any] | None = None,
    height: str | float = "",
) -> Any:
    """The viewer of one record or several, for a notebook: the last value of a cell is shown.

    Cells of all heads are saved with the notebook while they take 8 MB or less (some 200 tokens of a small model):
    it can then be looked at without a kernel. Of longer texts the kernel is asked, for exact rows too.

    Args:
        records: what is shown, the first one first.
        tables: profiles, roles and importances of a model that is shown, to colour its heads by.
        start: what the view starts with: {"head": "18.6", "tab": "map", "unit": "words", ...}; where no head is
            named, the most telling one of the text.
        height: pixels, or a CSS length, beyond which the viewer scrolls; "" = as high as it is.

    Returns:
        The widget, whose `state` is what is looked at: read it, set it, observe it. Without anywidget, something
        that shows the same page in a frame, and says how to get the widget.

    Raises:
        ConfigError: no record, a table of another model, no height, or a start that a view does not have.
        HeadError: a start at a head that none of the models has.
    """
    given, high = records_of(records), _css_length(height)
    scenes = scenes_of(given, tables=tables, budget=AT_ONCE * 4 / 3)  # as base64
    begin = beginning(scenes, start, what="a view", anywhere=True)
    if find_spec("anywidget") is None:
        return Still(scenes, begin, high)
    from headwise.show.notebook.widget import Viewer

    return Viewer(scenes, begin, high)


def _css_length(height: object) -> str:
    """A height as CSS has it; numbers are pixels."""
    number = isinstance(height, int | float) and not isinstance(height, bool)
    length = f"{height}px" if number else height
    if length == "" or (isinstance(length, str) and _LENGTH.fullmatch(length.strip())):
        return length.strip()
    raise ConfigError(f"height takes pixels (400) or a CSS length ('60vh'), came {height!r}")
