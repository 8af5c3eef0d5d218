"""A scene: one record as the viewer takes it, an index of plain values and chunks of bytes made when asked for.

The index says what there is: texts, layers, masks, what each head does, what the grid can be coloured by. Chunks
are the cells of a head ("18.6"), the mean over the heads of a layer ("mean/18") or of a whole stack ("mean/", or
"mean/encoder"), which the viewer works out itself where all cells are kept, and whatever JSON the panels have been
told ("fires").
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from headwise.core.scores import BLOCK_CELLS
from headwise.names import HeadError, HeadId, LayerId
from headwise.see.record import LayerRecord, Record, Side
from headwise.see.summary import HeadSummary, summarise
from headwise.see.telling import telling
from headwise.show.page.cells import Kept, packed
from headwise.show.page.colouring import number, of_record
from headwise.show.page.flow import told_reach
from headwise.show.page.keeping import kept_heads, mean_of
from headwise.show.page.sides import TITLES, places_of, separators, sides_of
from headwise.show.page.sight import Masks
from headwise.show.page.tables import Table, told_table

__all__ = ["MEAN", "Scene", "right_to_left"]

MEAN = "mean/"
"""What the name of a mean begins with."""

_HELD = 16 * BLOCK_CELLS
"""So many cells of a layer are kept in mind from one chunk to the next."""


@dataclass(frozen=True, eq=False)
class Scene:
    """One record to be shown.

    Attributes:
        record: of one text.
        title: by which it is chosen among others; "" = the model.
        note: what was done to the model or text, "" for nothing.
        off: ids of heads that were at zero.
        told: chunks of JSON by name, for panels that need more ("fires", "flow"): values, or functions that make
            them when they are asked for.
        tables: profiles, roles and importances of the model, which colour the grid.
        least: cells of at least this weight are kept; 0 = all.
        side: of the pooled map of the others.
        given: what each head does most, where that is known already.
    """

    record: Record
    title: str = ""
    note: str = ""
    off: Sequence[str] = ()
    told: Mapping[str, Any | Callable[[], Any]] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    least: float = 0.0
    side: int = 64
    given: Sequence[HeadSummary] = ()
    _held: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def summaries(self) -> list[HeadSummary]:
        """What each head does most."""
        return list(self.given) or summarise(self.record)

    @cached_property
    def opens(self) -> str:
        """The head that a view of it opens with: the most telling one, else the first."""
        seen = [s for s in self.summaries if s.id.stream in self._stacks]
        found = telling(self.record, seen, 1)
        return str(found[0][0].id if found else self.record.heads()[0])

    @cached_property
    def all_told(self) -> dict[str, Any]:
        """All chunks of JSON by name: those given, and the reach of its masks."""
        return {"reach": partial(told_reach, self.record), **self.told}

    @cached_property
    def index(self) -> dict[str, Any]:
        """What the viewer reads first, as JSON takes it."""
        masks = Masks()
        colourings = of_record(self.summaries)
        evidence: dict[str, list[dict[str, Any]]] = {}
        for table in self.tables:
            more, by_head = told_table(table, self.record)
            colourings += more
            for head, blocks in by_head.items():
                evidence.setdefault(head, []).extend(blocks)
        own = self._own
        return {
            "title": self.title or self.record.model,
            "model": self.record.model,
            "text": self.record.text,
            "note": self._noted(),
            "off": [head for head in self.off if head in own],
            "verified": number(self.record.verified),
            "sides": [_side(side, name) for side, name in self._sides()],
            "streams": self._streams(masks),
            "masks": masks.found,
            "heads": {str(s.id): _head(s) for s in self.summaries},
            "colourings": [_only(one, own) for one in colourings],
            "evidence": {head: blocks for head, blocks in evidence.items() if head in own},
            "told": list(self.all_told),
            "least": self.least,
        }

    @cached_property
    def keys(self) -> list[str]:
        """The names of all chunks, in the order in which they are made quickest."""
        found, means = [], self.least > 0
        for id, layer in self.record.layers.items():
            found += [str(id.head(head)) for head in layer.naming.heads]
            found += [f"{MEAN}{id}"] if means else []
        return [*found, *(f"{MEAN}{name}" for name in self._stacks if means), *self.all_told]

    @property
    def means(self) -> list[str]:
        """The names of all means: of each layer, and of each stack."""
        return [f"{MEAN}{name}" for name in [*self._layers, *self._stacks]]

    def has(self, head: str) -> bool:
        """Whether a head, or a mean, is there."""
        return head in self._own or head in self.means

    @cached_property
    def _own(self) -> set[str]:
        return {str(id) for id in self.record.heads()}

    def chunk(self, key: str) -> bytes:
        """The bytes of a chunk, deflated.

        Raises:
            HeadError: there is none of this name.
        """
        if key in self.all_told:
            told = self.all_told[key]
            told = told() if callable(told) else told
            return zlib.compress(json.dumps(told, allow_nan=False).encode(), 9)
        if key.startswith(MEAN):
            return packed(self._mean(key.removeprefix(MEAN)))
        id = HeadId.parse(key)
        layer = self.record.layer_of(id)
        at = layer.index(id.head)
        if _cells(layer) > _HELD and self.least <= 0:
            return packed(kept_heads(layer, self.least, self.side, slice(at, at + 1))[0])
        return packed(self._heads(layer)[at])

    def rows(self, head: str, start: int, stop: int) -> bytes:
        """All cells of some rows of a head, deflated.

        Raises:
            HeadError: there is no such head.
        """
        id = HeadId.parse(head)
        layer = self.record.layer_of(id)
        at = layer.index(id.head)
        rows = range(max(0, start), min(stop, layer.scores.shape[2]))
        return packed(kept_heads(layer, 0.0, 0, slice(at, at + 1), rows)[0])

    @property
    def held_bytes(self) -> int:
        """Bytes of the cells at hand from one chunk to the next."""
        held = [*(self._held.get("heads") or (None, ()))[1], *self._held.get("means", {}).values()]
        return sum(kept.nbytes for kept in held)

    def forget(self) -> None:
        """Let go of the cells at hand; they are made again when they are asked for."""
        self._held.clear()

    def _heads(self, layer: LayerRecord) -> list[Kept]:
        """The cells of a layer's heads; those of the last layer asked for are held."""
        held = self._held.get("heads")
        if held is None or held[0] is not layer:
            held = layer, kept_heads(layer, self.least, self.side)
            self._held["heads"] = held
        kept: list[Kept] = held[1]
        return kept

    def _mean(self, name: str) -> Kept:
        """The mean over the heads of a layer or of a stack."""
        if name in self._stacks:
            layers = self._stacks[name]
            means = [self._mean(str(layer.id)) for layer in layers]
            return mean_of(means, [layer.num_heads for layer in layers], self.least)
        layer = self._layers.get(name)
        if layer is None:
            raise HeadError(f"there is no mean of {name!r}: {', '.join(self._layers)} have one")
        means = self._held.setdefault("means", {})
        if name not in means:
            means[name] = mean_of(self._heads(layer), [1.0] * layer.num_heads, self.least)
        mean: Kept = means[name]
        return mean

    @cached_property
    def _layers(self) -> dict[str, LayerRecord]:
        return {str(id): layer for id, layer in self.record.layers.items()}

    @cached_property
    def _stacks(self) -> dict[str, list[LayerRecord]]:
        """The layers of each stack whose patterns are all of one shape, of which there is a mean."""
        found = self.record.stacks.items()
        return {n: ls for n, ls in found if len({x.scores.shape[2:] for x in ls}) == 1}

    def _sides(self) -> list[tuple[Side, str]]:
        """The texts with their names: those that look, then those that are looked at alone."""
        sides = sides_of(self.record)
        names = ["text"] if len(sides) == 1 else ["source", "target"]
        names += [f"text {n}" for n in range(3, len(sides) + 1)]
        return list(zip(sides, names, strict=True))

    def _streams(self, masks: Masks) -> list[dict[str, Any]]:
        stacks = self.record.stacks
        places = {name: places_of(layers[0], self.record) for name, layers in stacks.items()}
        return [
            {
                "name": name,
                "title": TITLES.get(name, name),
                "queries": places[name][0],
                "keys": places[name][1],
                "layers": [_layer(layer, masks) for layer in layers],
            }
            for name, layers in stacks.items()
        ]

    def _noted(self) -> str:
        """The note, and whether some weights are no numbers."""
        broken = [id for id, x in self.record.layers.items() if x.verified != x.verified]
        if not broken:
            return self.note
        said = ", ".join(map(str, broken[:3])) + (" ..." if len(broken) > 3 else "")
        why = f"layers {said} hold numbers that are none (NaN): rows that hold one have no number"
        return f"{self.note}; {why}" if self.note else why


def _cells(layer: LayerRecord) -> int:
    _, heads, queries, keys = layer.scores.shape
    return heads * queries * keys


def _layer(layer: LayerRecord, masks: Masks) -> dict[str, Any]:
    id: LayerId = layer.id
    found = {
        "id": str(id),
        "number": id.layer,
        "heads": list(layer.naming.heads),
        "kv": list(layer.naming.kv),
        "total": layer.naming.total,
        "mask": masks.number(layer),
    }
    return found | ({} if layer.scores.sink is None else {"sink": True})


def _side(side: Side, name: str) -> dict[str, Any]:
    found = {
        "text": side.text,
        "name": name,
        "tokens": [[t.label, t.start, t.end, int(t.special)] for t in side.tokens],
        "words": [[w.text, w.first, w.last] for w in side.words],
        "separators": separators(side),
    }
    return found | ({"rtl": True} if right_to_left(side.text) else {})


def right_to_left(text: str) -> bool:
    """Whether its first letter is of a script that runs from right to left."""
    kinds = (unicodedata.bidirectional(character) for character in text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def _head(summary: HeadSummary) -> dict[str, Any]:
    return {
        "does": summary.does,
        "mass": number(summary.mass),
        "kv": summary.kv_group,
        "masses": {rule: number(mass) for rule, mass in summary.masses.items()},
        "top": [[cell.query, cell.key, number(cell.weight)] for cell in summary.top],
    }


def _only(colouring: dict[str, Any], heads: set[str]) -> dict[str, Any]:
    """A colouring of the heads that the record has."""
    values = {head: value for head, value in colouring["values"].items() if head in heads}
    return colouring | {"values": values}
