"""What a server keeps: models once they are loaded, and the scenes that were looked at, up to a size."""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headwise.hub.load import Model, load
from headwise.names import HeadwiseError, ModelError
from headwise.see.record import Record
from headwise.see.summary import HeadSummary
from headwise.see.texts.batches import Batch, batches_of
from headwise.show.page.scene import Scene
from headwise.show.server.saying import GoneSceneError, RefusedError
from headwise.show.server.settings import Settings, within

__all__ = ["Kept", "Models", "Shelf"]

_WARM = 2
"""Of so many scenes, those asked for last, the cells at hand are kept: two can be compared."""

_SMALL = 500_000_000
"""Outputs of at most so many bytes are kept beside their scene."""


@dataclass(eq=False)
class Kept:
    """A scene, and what it was made of.

    Attributes:
        scene: as the viewer takes it.
        name: of the model, as it was asked for.
        text, target: that it read.
        factors: how much was left of heads that were turned down, by their ids.
        batch: the same as the model reads it, once it was needed.
        output: what the model gives as it is, once it was needed.
        source: what `load` takes for the model; "" = its name.
    """

    scene: Scene
    name: str
    text: str
    target: str | None
    factors: Mapping[str, float] = field(default_factory=dict)
    batch: Batch | None = None
    output: Any = None
    output_bytes: int = 0
    source: str = ""

    def reads(self, model: Model) -> Batch:
        """The batch of its text."""
        if self.batch is None:
            targets = None if self.target is None else [self.target]
            (self.batch,) = batches_of(model, [self.text], targets)
        return self.batch

    def keep(self, output: Any, size: int) -> None:
        """Keep what the model gives as it is, where it is small."""
        if size <= _SMALL:
            self.output, self.output_bytes = output, size

    @cached_property
    def index(self) -> dict[str, Any]:
        """What the viewer reads first; by `asked` and `target` the same can be asked for again."""
        again = {"asked": self.name, "target": self.target, "source": self.source or self.name}
        return {**self.scene.index, **again, "opens": self.scene.opens}

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        return (
            size_of(self.scene.record) + self.scene.held_bytes + self.told_bytes + self.output_bytes
        )

    @cached_property
    def told_bytes(self) -> int:
        """Bytes that what the viewer reads first holds, about."""
        return sum(map(_deep, (self.index, self.scene.summaries)))


def _deep(value: Any) -> int:
    """Bytes of a value with all that is in it, about: what is in it twice is counted twice."""
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(_deep(key) + _deep(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(_deep, value))
    return size + _deep(vars(value)) if isinstance(value, HeadSummary) else size


def size_of(record: Record) -> int:
    """Bytes that a record holds, about."""
    total = 0
    for layer in record.layers.values():
        held = [layer.scores.q, layer.scores.k, layer.scores.bias]
        if layer.lengths is not None:
            held += [layer.lengths.v, layer.lengths.gram, layer.lengths.known]
        total += sum(x.nbytes for x in held if x is not None)
    return total


class Shelf:
    """The scenes that are kept; those not asked for longest go first. Who does not know an id cannot ask for it.

    Args:
        most: bytes that they may hold together; the newest stays in any case.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, kept: Kept) -> str:
        """Keep a scene; its id."""
        id = secrets.token_urlsafe(16)
        with self._lock:
            self._held[id] = kept
            self._shrink()
        return id

    def get(self, id: object) -> Kept:
        """The scene of this id.

        Raises:
            GoneSceneError: there is none, or no more.
        """
        with self._lock:
            kept = self._held.get(id) if isinstance(id, str) else None
            if kept is None:
                raise GoneSceneError
            self._held.move_to_end(id)  # type: ignore[arg-type]
            self._shrink()
            return kept

    def _shrink(self) -> None:
        """Drop cells that can be made again of scenes not used lately, and scenes where there is still too much."""
        for kept in list(self._held.values())[:-_WARM]:
            kept.scene.forget()
        while len(self._held) > 1 and sum(one.size for one in self._held.values()) > self._most:
            self._held.popitem(last=False)


class Models:
    """The models that may be asked for, each loaded when it is first needed.

    Args:
        settings: which there are.
        folder: out of which none of those that are in it may lead.
    """

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        self._settings, self._folder = settings, folder
        self._loaded: dict[str, Model] = {}

    @property
    def names(self) -> list[str]:
        """Of all that may be asked for."""
        return list(self._settings.models)

    def check(self, name: object) -> str:
        """A name that may be asked for.

        Raises:
            RefusedError: any other.
        """
        if not isinstance(name, str) or name not in self._settings.models:
            raise RefusedError(404, f"no such model here; there are {', '.join(self.names)}")
        return name

    def is_loaded(self, name: str) -> bool:
        """Whether it is in memory."""
        return name in self._loaded

    @property
    def writing(self) -> list[str]:
        """Those known to read one text and write another: loaded, or in folders that say so."""
        return [name for name in self.names if self._writes(name)]

    def _writes(self, name: str) -> bool:
        if name in self._loaded:
            return self._loaded[name].encoder_decoder
        path = Path(self._settings.models[name]) / "config.json"
        try:
            return bool(json.loads(path.read_text(encoding="utf-8")).get("is_encoder_decoder"))
        except (OSError, ValueError, AttributeError):
            return False

    def get(self, name: str) -> Model:
        """A model, loaded at its first call.

        Raises:
            HeadwiseError: it cannot be loaded.
        """
        if name not in self._loaded:
            source = self._settings.models[name]
            if isinstance(source, Path) and not (self._folder and within(source, self._folder)):
                raise ModelError(f"{name} leads out of the folder of models")
            self._loaded[name] = replace(self._read(name, source), name=name)
        return self._loaded[name]

    def source(self, name: str) -> str:
        """What `load` takes for a model."""
        return str(self._settings.models[name])

    def _read(self, name: str, source: str | Path) -> Model:
        try:
            return load(source, self._settings.device, self._settings.dtype)
        except HeadwiseError as error:
            if isinstance(source, Path):  # it is known here by the name it is asked for
                raise type(error)(str(error).replace(str(source), name)) from None
            raise
