"""What `headwise prune` does once its arguments are read: cut, measure, save, show, draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import xarray as xr
from rich.console import Console, Group, RenderableType
from rich.text import Text

from headwise.cli.compared import as_json, file_rows, groups_of, measured, sizes
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.progress import StepProgress
from headwise.cli.prune.command import PruneRequest
from headwise.cli.prune.curve import CurveFound, curve_of, draw_curve
from headwise.cli.prune.cutting import pruned, settings_of
from headwise.cli.prune.reached import reached_words, time_size
from headwise.cli.reading import out_of_memory, reading_model
from headwise.cli.saving import saved_words
from headwise.cut.ablating.comparing import Measured, predicts
from headwise.cut.census import census
from headwise.cut.pruning.iterating import path_of
from headwise.cut.ranking.files import load_importance
from headwise.cut.saving.saving import Saved, save
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.show.cells import print_lines, sentence
from headwise.show.ranked import grid_of_cut
from headwise.show.terminal import head_grid
from headwise.show.terminal_ablate import files_table
from headwise.show.terminal_cut import Size, curve_table, sizes_table
from headwise.show.words import heads_said

__all__ = ["run"]

_INTERRUPTED = 130

_SAID = 24
"""So many heads that were cut are told by their ids; of more the grid tells."""


@dataclass(frozen=True, eq=False)
class _Done:
    """What came of it."""

    model: Model
    made: Model
    cut: tuple[HeadId, ...]
    sizes: list[Size]
    files: dict[Path, Measured]
    curve: CurveFound | None
    saved: Saved | None


def run(request: PruneRequest) -> int:
    """Cut heads, and show what it costs and saves; the exit code."""
    scores = None if request.scores is None else load_importance(request.scores)
    model = reading_model(request, call="prune")
    made = _cut(request, model, scores)
    left = set(census(made).heads)
    cut = tuple(id for id in census(model).heads if id not in left)
    files = request.held_out or request.files
    found = measured(model, made, files, request.reading, "prune")
    held = [*sizes(model, made), *time_size(request, model, made)]
    saved = None if request.out is None else save(made, request.out)
    if saved is not None:
        say(saved_words(saved))
    curve = curve_of(request, model, scores) if request.curve else None
    done = _Done(model, made, cut, held, found, curve, saved)
    if request.json is not None:
        write_json(_json(request, done), request.json)
    if str(request.json) != "-":
        print_out(lambda console, colour: _show(request, done, console, colour))
    for path in request.pictures:
        _draw(request, done, path)
    if saved is None:
        say(saved_words(None))
    way = path_of(made.module)
    if way is not None and way.stopped:
        say(
            f"headwise: interrupted after step {len(way.steps)} of {way.planned}; that is what was cut"
        )
        return _INTERRUPTED
    return 0


def _cut(request: PruneRequest, model: Model, scores: xr.Dataset | None) -> Model:
    """The cut, with how far it is on stderr."""
    with StepProgress(request.settings.get("steps") or 1) as steps:

        def tell(done: int, total: int, what: str) -> None:
            steps.total = total
            steps.at(done, what)

        try:
            return pruned(request, model, scores, request.keep, tell)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error) from None


def _show(request: PruneRequest, done: _Done, console: Console, colour: bool) -> None:
    width = console.width
    count = f"{len(done.cut)} of {len(census(done.model).heads)} heads cut"
    told = f"{done.model.name}: {count}"
    if 0 < len(done.cut) <= _SAID:
        told += f": {heads_said(done.cut)}"
    parts: list[RenderableType] = [
        print_lines(sentence(told, width)),
        Text(),
    ]
    parts.append(head_grid(_grid(done), width=width, colour=colour))
    parts.append(sizes_table(done.sizes, width=width))
    reached = reached_words(request, done.model, done.cut, done.sizes)
    if reached:
        parts.append(print_lines(sentence(reached, width)))
    if done.files:
        parts.append(files_table(file_rows(done.files), None, predicts(done.model), width=width))
    if done.files and not request.held_out:
        parts.append(Text("(the texts it was cut by; --held-out FILE measures on others)"))
    if done.curve is not None:
        parts.append(curve_table(done.curve.points, width=width))
    console.print(Group(*parts))


def _grid(done: _Done) -> Any:
    left = [id for id in census(done.model).heads if id not in set(done.cut)]
    return grid_of_cut(left, done.cut, groups_of(done.model))


def _draw(request: PruneRequest, done: _Done, path: Path) -> None:
    from headwise.show.pictures import draw_grid, save

    files = ", ".join(file.name for file in request.held_out or request.files)
    if done.curve is not None:
        figure = draw_curve(done.curve, done.model.name, files)
    else:
        count = f"{len(done.cut)} of {len(census(done.model).heads)} heads cut"
        figure = draw_grid(_grid(done), caption=f"{done.model.name}, {count}.")
    save(figure, path)
    say(f"wrote {path}")


def _json(request: PruneRequest, done: _Done) -> dict[str, Any]:
    found: dict[str, Any] = {
        "model": done.model.name,
        "cut": [str(id) for id in done.cut],
        "settings": settings_of(request),
        **as_json(done.files, done.sizes, predicts(done.model)),
    }
    if done.saved is not None:
        found["saved"] = {"folder": str(done.saved.folder), "plain": done.saved.plain}
    if done.curve is not None:
        found["curve"] = done.curve.as_dict()
    return found
