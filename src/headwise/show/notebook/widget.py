"""The viewer as a widget of Jupyter, VS Code, Colab and marimo, through anywidget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import anywidget
import traitlets

from headwise.names import ConfigError, HeadwiseError
from headwise.show.notebook.data import answer, chunks_of, index_with_rows, known
from headwise.show.notebook.still import still_bundle
from headwise.show.page.bundle import script, style
from headwise.show.page.scene import Scene

__all__ = ["View", "Viewer"]


class View(dict[str, Any]):
    """The state of a viewer; what is set in it is shown: `widget.state["head"] = "18.6"`.

    What is set goes to what is shown now, also through a view that was read before; nothing can be taken away.
    """

    def __init__(self, owner: Viewer, state: dict[str, Any]) -> None:
        super().__init__(state)
        self._owner = owner

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self._owner.state

    def update(self, *args: Any, **names: Any) -> None:
        """Show several things at once."""
        self._owner.state = {**self._owner.state, **dict(*args, **names)}

    def setdefault(self, name: str, default: Any = None) -> Any:
        """What is shown; the default is shown where nothing was said of it."""
        if name not in self._owner.state:
            self.update({name: default})
        return self._owner.state[name]

    def __delitem__(self, name: str) -> NoReturn:
        self._refuse()

    def pop(self, *args: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def popitem(self) -> NoReturn:
        """Refused."""
        self._refuse()

    def clear(self) -> NoReturn:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            "nothing can be taken out of the state of a view; set what is to be shown instead"
        )


class Viewer(anywidget.AnyWidget):
    """The viewer of some records.

    Attributes:
        state: what is looked at (head, tab, query, unit, ...): set it, read it, `observe` it.
        height: a CSS length beyond which the viewer scrolls; "" = as high as it is.
        index: what the viewer knows of the records at once.
        chunks: the cells of all heads, where they are few enough to be saved with the notebook.
        places: where each head's cells are in `chunks`.
    """

    _esm = script("widget.js")
    _css = style()
    index = traitlets.Dict().tag(sync=True)
    chunks = traitlets.Bytes().tag(sync=True)
    places = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    height = traitlets.Unicode("").tag(sync=True)

    def __init__(self, scenes: Sequence[Scene], start: dict[str, Any], height: str = "") -> None:
        self._scenes = tuple(scenes)
        chunks, places = chunks_of(scenes)
        super().__init__(
            index=index_with_rows(scenes, start),
            chunks=chunks,
            places={key: list(ends) for key, ends in places.items()},
            state=dict(start),
            height=height,
        )
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        return f"Viewer({', '.join(str(scene.record) for scene in self._scenes)})"

    @traitlets.validate("state")
    def _as_view(self, proposal: Any) -> View:
        return View(self, known(proposal["value"], self._scenes))

    def _answer(self, _: Any, asked: Any, __: Any) -> None:
        id = asked.get("id") if isinstance(asked, dict) else None
        try:
            self.send({"id": id}, [answer(self._scenes, asked)])
        except HeadwiseError as error:
            self.send({"id": id, "error": str(error)})

    def _repr_mimebundle_(self, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and a picture for readers of the notebook that run no scripts."""
        data, told = super()._repr_mimebundle_(**given) or ({}, {})
        still, stills = still_bundle(self._scenes)
        return {**still, **data}, {**stills, **told}
