"""What a page may ask: look at a text, turn heads down, and what else a scene can be measured for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from headwise.cut.ablating.ablating import ablate
from headwise.cut.ablating.gates import Gates
from headwise.hub.load import Model
from headwise.names import TextError
from headwise.see.looking import look
from headwise.see.summary import summarise
from headwise.see.texts.refusing import check_reads_text
from headwise.show.page.choosing import least_for
from headwise.show.page.fires import told_fires
from headwise.show.page.flow import told_flow
from headwise.show.page.scene import Scene
from headwise.show.server.cutting import cut, factors_in
from headwise.show.server.saying import RefusedError
from headwise.show.server.shelf import Kept, Models, Shelf
from headwise.show.server.work import Job, ticking

__all__ = ["Answers"]

Task = Callable[[Job], dict[str, Any]]

_BUDGET = 40_000_000
"""Bytes of a scene's cells, all heads together; of longer texts the strong ones alone, and rows when asked for."""

_TITLE = 40
"""So many characters of the text stand in a scene's name."""

TOLD: dict[str, Callable[..., dict[str, Any]]] = {"flow": told_flow, "fires": told_fires}
"""What a scene can be measured for."""


class Answers:
    """What a page may ask, each as a task for the line of work; what is wrong is told before it waits in line."""

    def __init__(self, models: Models, shelf: Shelf) -> None:
        self.models, self.shelf = models, shelf
        self._gates: dict[str, Gates] = {}

    @property
    def kinds(self) -> dict[str, Callable[[Mapping[str, Any]], Task]]:
        """What may be asked, by name."""
        found: dict[str, Callable[[Mapping[str, Any]], Task]] = {"look": self.look, "cut": self.cut}
        return found | {what: partial(self._measured, told) for what, told in TOLD.items()}

    def look(self, body: Mapping[str, Any]) -> Task:
        """Look at a text: {model, text, target?, without?} -> {scene, index}."""
        name = self.models.check(body.get("model"))
        text, target = _text(body, "text"), _text(body, "target") or None
        without = body.get("without")
        named = isinstance(without, list) and all(isinstance(one, str) for one in without)
        if without is not None and not named and not isinstance(without, dict):
            raise RefusedError(400, "without must be heads, or an object of factors")
        if not text.strip():
            raise TextError("the text is empty; give at least one word")

        def task(job: Job) -> dict[str, Any]:
            model = self._model(name, job)
            kept = self._looked(model, name, text, target, without, job)
            return {"scene": self.shelf.add(kept), "index": kept.index}

        return task

    def cut(self, body: Mapping[str, Any]) -> Task:
        """Turn heads down: {scene, heads: {id: factor}, at?} -> what changes."""
        kept, at = self.shelf.get(body.get("scene")), body.get("at")

        def task(job: Job) -> dict[str, Any]:
            model = self._model(kept.name, job)
            gates = self._gates_of(kept.name, model)
            factors = factors_in(body.get("heads"), gates)
            return cut(model, gates, kept, factors, at if isinstance(at, int) else None, job)

        return task

    def _measured(self, told: Callable[..., dict[str, Any]], body: Mapping[str, Any]) -> Task:
        kept = self.shelf.get(body.get("scene"))

        def task(job: Job) -> dict[str, Any]:
            model = self._model(kept.name, job)
            job.says("measuring")
            with ticking(model, job, passes=0), _turned_down(model, kept.factors):
                return told(model, kept.scene.record, progress=job.tick)

        return task

    def _looked(
        self,
        model: Model,
        name: str,
        text: str,
        target: str | None,
        without: list[str] | dict[str, float] | None,
        job: Job,
    ) -> Kept:
        check_reads_text(model, "look")
        factors = self._factors(model, name, without)
        note = _note(factors)
        with ticking(model, job), _turned_down(model, factors):
            record = look(model, text, target=target)
        job.says("looking at what every head does")
        does = summarise(record, progress=job.tick)
        job.check()
        least = least_for(record, _BUDGET)
        off = [id for id, factor in factors.items() if factor == 0]
        scene = Scene(record, _title(name, text, note), note, off, least=least, given=does)
        kept = Kept(scene, name, text, target, factors, source=self.models.source(name))
        _ = kept.index
        job.check()
        return kept

    def _factors(
        self, model: Model, name: str, without: list[str] | dict[str, float] | None
    ) -> dict[str, float]:
        if not without:
            return {}
        pairs = without if isinstance(without, dict) else dict.fromkeys(without, 0.0)
        found = factors_in(pairs, self._gates_of(name, model))
        return {str(id): factor for id, factor in found.items()}

    def _model(self, name: str, job: Job) -> Model:
        if not self.models.is_loaded(name):
            job.says(f"loading {name}")
        model = self.models.get(name)
        job.check()
        return model

    def _gates_of(self, name: str, model: Model) -> Gates:
        if name not in self._gates:
            self._gates[name] = Gates(model)
        return self._gates[name]


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name, "")
    if found is None:
        return ""
    if not isinstance(found, str):
        raise RefusedError(400, f"{name} must be a text, came {type(found).__name__}")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise TextError(
            f"the {name} holds half a character (a lone surrogate); take it out"
        ) from None
    return found


@contextmanager
def _turned_down(model: Model, factors: Mapping[str, float]) -> Iterator[None]:
    """Within the `with` so much is left of these heads."""
    with ablate(model, dict(factors)) if factors else nullcontext():
        yield


def _title(name: str, text: str, note: str) -> str:
    """What a scene is called among others, first what was done to it: lists of names show their beginning."""
    line = " ".join(text.split())
    short = line if len(line) <= _TITLE else f"{line[:_TITLE].rstrip()}…"
    return " · ".join(part for part in (note, name, short) if part)


def _note(factors: Mapping[str, float]) -> str:
    """Which heads were turned down, in a few words."""
    off = [id for id, factor in factors.items() if factor == 0]
    down = [f"{id} at {factor:g}" for id, factor in factors.items() if factor]
    shown = [*off[:6], *([f"{len(off) - 6} more"] if len(off) > 6 else [])]
    parts = [f"without {', '.join(shown)}"] if off else []
    return "; ".join([*parts, *([f"with {', '.join(down[:6])}"] if down else [])])
