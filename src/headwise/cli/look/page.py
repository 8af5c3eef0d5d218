"""What `headwise look --html` does: more records where some are asked for, then one page of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from headwise.cut.ablating.ablating import ablate
from headwise.hub.load import Model, load
from headwise.names import HeadId
from headwise.see.looking import look
from headwise.see.record import Record
from headwise.see.summary import HeadSummary
from headwise.see.wording import Place
from headwise.show.page.document import save_document
from headwise.show.page.fires import told_fires
from headwise.show.page.flow import told_flow
from headwise.show.page.saving import scenes_of
from headwise.show.page.scene import Scene
from headwise.show.page.starting import checked_start
from headwise.show.page.tables import Table

__all__ = ["Opening", "PageRequest", "write_page"]

Tick = Callable[[int, int], None] | None


@dataclass(frozen=True, eq=False)
class PageRequest:
    """The page asked for on the command line.

    Attributes:
        path: of the file.
        beside: other texts.
        models: other models that read the text.
        without: heads at zero, a scene for each.
        tables: what the grid is coloured by.
        flow: whether what flows is measured.
        ffn: whether neurons, and what blocks add, are told.
        target: what a decoder reads.
        device: where the models run.
        dtype: how precisely.
    """

    path: Path
    beside: tuple[str, ...]
    models: tuple[str, ...]
    without: tuple[str, ...]
    tables: tuple[Table, ...]
    flow: bool
    ffn: bool
    target: str | None
    device: str | None
    dtype: str | None


@dataclass(frozen=True)
class Opening:
    """What the page opens with: a head, a word, and whether it is by words."""

    head: HeadId | None
    place: Place | None
    by_words: bool = False

    @classmethod
    def of(cls, heads: Sequence[HeadId], places: Sequence[Place], by_words: bool) -> Opening:
        """The first of the heads and of the places."""
        return cls(heads[0] if heads else None, places[0] if places else None, by_words)


@dataclass(frozen=True, eq=False)
class _Shown:
    """A record with what was done to its model, and what else the page tells of it."""

    record: Record
    note: str
    told: Mapping[str, Any]
    off: tuple[str, ...] = ()


def write_page(
    request: PageRequest,
    model: Model,
    record: Record,
    summaries: Sequence[HeadSummary],
    opening: Opening,
    tick: Tick = None,
) -> None:
    """Write the page, and say so on the standard error.

    Args:
        request: what was asked for.
        model: that made the record.
        record: shown first.
        summaries: of its heads.
        opening: what is chosen when the page opens.
        tick: hears of the progress.

    Raises:
        OutputError: a path that cannot be written.
        ConfigError: a table of another model.
        HeadError: heads of --without that are not there.
    """
    shown = [
        _Shown(record, "", _told(request, model, record, tick)),
        *_others(request, model, record.text, tick),
    ]
    scenes = scenes_of(
        [one.record for one in shown],
        tables=request.tables,
        notes=[one.note for one in shown],
        off=[one.off for one in shown],
        told=[one.told for one in shown],
        summaries=[summaries],
    )
    start = _start(record, opening, HeadId.parse(scenes[0].opens))
    save_document(scenes, request.path, checked_start(scenes, start), tick)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(_wrote(request.path, scenes), markup=False)


def _told(request: PageRequest, model: Model, record: Record, tick: Tick) -> dict[str, Any]:
    """What else the panels of the page show, by the names of its chunks, measured while heads are at zero."""
    found: dict[str, Any] = {}
    if request.flow:
        found["flow"] = told_flow(model, record, progress=tick)
    if request.ffn:
        found["fires"] = told_fires(model, record, progress=tick)
    return found


def _others(request: PageRequest, model: Model, text: str, tick: Tick) -> Iterator[_Shown]:
    """The scenes beside the first: with heads at zero, of other texts, by other models."""
    target = request.target
    for heads in request.without:
        with ablate(model, heads) as ablation:
            found = look(model, text, target=target, progress=tick)
            off = tuple(str(id) for id in ablation.heads)
            yield _Shown(found, f"without {heads}", _told(request, model, found, tick), off)
    for other in request.beside:
        found = look(model, other, target=target, progress=tick)
        yield _Shown(found, "", _told(request, model, found, tick))
    for name in request.models:
        another = load(name, request.device, request.dtype)
        found = look(another, text, target=target, progress=tick)
        yield _Shown(found, "", _told(request, another, found, tick))


def _start(record: Record, opening: Opening, telling: HeadId) -> dict[str, Any]:
    """What the view starts with, by the names it has in its address: the head asked for, else a telling one."""
    start: dict[str, Any] = {"unit": "words"} if opening.by_words else {}
    head, place = opening.head or telling, opening.place
    if place is not None:
        start |= {"query": _query_of(place), "pinned": True}
        if record.layer_of(head).queries.tokens != place.side.tokens:
            head = _first_of(record, place) or head
    return start | {"head": str(head)}


def _query_of(place: Place) -> int:
    """The first token of a word that is more than the space before it."""
    word = range(place.word.first, place.word.last)
    said = (t for t in word if any(c.isalnum() for c in place.side.tokens[t].text))
    return next(said, place.word.first)


def _first_of(record: Record, place: Place) -> HeadId | None:
    """The first head whose queries are the text that a word stands in."""
    for id, layer in record.layers.items():
        if layer.queries.tokens == place.side.tokens:
            return id.head(layer.naming.heads[0])
    return None


def _wrote(path: Path, scenes: list[Scene]) -> str:
    """Where it is, how large, and what was pooled."""
    size = path.stat().st_size / 1e6 if path.is_file() else 0.0
    pooled = sorted({scene.least for scene in scenes if scene.least > 0})
    line = f"wrote {path} ({size:.1f} MB)"
    if pooled:
        line += f"; cells under {' and '.join(f'{least:g}' for least in pooled)} are pooled"
    return line
