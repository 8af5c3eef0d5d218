"""view: records in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from headwise.names import ConfigError
from headwise.see.record import Record
from headwise.show.notebook.data import known
from headwise.show.notebook.still import Still
from headwise.show.page.scene import Scene

__all__ = ["view"]


def view(
    records: Record | Scene | Sequence[Record | Scene],
    *,
    tables: Sequence[Any] = (),
    start: Mapping[str, Any] | None = None,
    height: str = "",
) -> Any:
    """The viewer of one record or several, for a notebook: the last value of a cell is shown.

    Args:
        records: what is shown, the first one first.
        tables: a profile, roles or importance, whose numbers the grid can be coloured by.
        start: what the view starts with: {"head": "18.6", "tab": "map", "unit": "words", ...}.
        height: a CSS length beyond which the viewer scrolls; "" = as high as it is.

    Returns:
        The widget, whose `state` is what is looked at: read it, set it, observe it. Without anywidget, something
        that shows the same page in a frame, and says how to get the widget.

    Raises:
        ConfigError: no record, or a start that a view does not have.
        HeadError: a start at a head that none of the models has.
    """
    given = [records] if isinstance(records, Record | Scene) else list(records)
    if not given:
        raise ConfigError("there is nothing to show; give at least one record")
    scenes = [one if isinstance(one, Scene) else Scene(one) for one in given]
    begin = known(start or {}, scenes)
    if find_spec("anywidget") is None:
        return Still(scenes, begin, height)
    from headwise.show.notebook.widget import Viewer

    return Viewer(scenes, begin, height)
