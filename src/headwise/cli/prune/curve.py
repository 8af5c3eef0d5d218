"""Loss against heads removed: the cut that was asked for, beside one shot by gate gradients and random heads.

The two others stand for what costs nothing to try: the heads with the smallest gate gradients (Michel et al. 2019)
and heads drawn at random, both set to zero, which is what pruning them without any repair comes to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from headwise.cli.compared import groups_of, measured
from headwise.cli.cutting import rows_of
from headwise.cli.progress import StepProgress
from headwise.cli.prune.command import PruneRequest
from headwise.cli.prune.cutting import pruned, texts_of
from headwise.cut.ablating.comparing import Measured, Sets, predicts
from headwise.cut.ablating.gates import Gates
from headwise.cut.census import census
from headwise.cut.ranking.importance import importance
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.see.tables import plain
from headwise.see.texts.given import batches_in
from headwise.show.ranked import ranked_heads
from headwise.show.terminal_cut import Point

__all__ = ["CurveFound", "curve_of", "draw_curve"]

_POINTS = 5
"""Shares between all heads and --keep that are measured."""

_OURS, _ONE_SHOT, _RANDOM = "this cut", "one shot, smallest gate gradients", "random heads"


@dataclass(frozen=True, eq=False)
class CurveFound:
    """What was measured at several shares of heads removed; `loss` says whether that is losses."""

    points: tuple[Point, ...]
    base: float
    loss: bool
    draws: int

    def as_dict(self) -> list[dict[str, Any]]:
        """As JSON has it."""
        return [
            {name: plain(value) for name, value in asdict(point).items()} for point in self.points
        ]


def curve_of(request: PruneRequest, model: Model, scores: xr.Dataset | None) -> CurveFound:
    """Measure the cut that was asked for at several shares, and heads chosen in two plain ways at the same.

    Raises:
        HeadwiseError: as `prune` and `importance` do.
    """
    files = request.held_out or request.files
    heads = len(census(model).heads)
    assert request.keep is not None
    points, removed = [], []
    with StepProgress(_POINTS + 1) as steps:
        for i in range(1, _POINTS + 1):
            keep = 1 - (1 - request.keep) * i / _POINTS
            steps.at(i - 1, f"cutting down to {keep:.0%}")
            made = pruned(request, model, scores, keep)
            found = measured(model, made, files, request.reading, "prune", shown=False)
            every = Measured.joined(list(found.values())).change()
            gone = heads - len(census(made).heads)
            points.append(Point(_OURS, gone / heads, every.after))
            removed.append(gone)
        steps.at(_POINTS, "measuring random heads")
        texts = texts_of(request, model)
        ranked = _ranked(model, texts) if texts is not None and predicts(model) else None
        points += _plain(request, model, ranked, removed)
    return CurveFound(tuple(points), every.before, predicts(model), request.draws)


def draw_curve(found: CurveFound, model: str, files: str) -> Figure:
    """The losses as lines, the random draws as a band from the lowest to the highest."""
    from headwise.show.picture_curves import Curve, Level, draw_curves

    curves = []
    for name in dict.fromkeys(point.name for point in found.points):
        own = [Point(name, 0.0, found.base, found.base, found.base)]
        own += sorted((p for p in found.points if p.name == name), key=lambda p: p.removed)
        x, y = np.array([p.removed for p in own]), np.array([p.loss for p in own])
        low, high = (np.array([getattr(p, end) for p in own]) for end in ("low", "high"))
        band = name == _RANDOM and found.draws > 1
        curves.append(Curve(name, x, y, low if band else None, high if band else None))
    caption = f"{model}, on {files}."
    if found.draws > 1:
        caption += (
            f" Random heads: mean of {found.draws} draws, band from the lowest to the highest."
        )
    caption += " One shot and random heads are set to zero."
    return draw_curves(
        curves,
        [Level(f"as it was ({found.base:.3f})", found.base)] if found.loss else [],
        xlabel="heads removed",
        ylabel="loss (nats per token)" if found.loss else "how far the output moves (relative)",
        caption=caption,
        percent=True,
    )


def _ranked(model: Model, texts: Any) -> dict[HeadId, float]:
    """The gate gradient of each head."""
    table = importance(model, texts, "gate", quiet=True)
    return {one.id: one.value for one in ranked_heads(table)}


def _plain(
    request: PruneRequest,
    model: Model,
    ranked: dict[HeadId, float] | None,
    removed: Sequence[int],
) -> list[Point]:
    """As many heads set to zero, those of the smallest gradients and random ones."""
    units = _units(model, request.unit)
    draw = random.Random(request.seed)
    orders = [draw.sample(units, len(units)) for _ in range(request.draws)]
    if ranked is not None:
        orders.insert(0, sorted(units, key=lambda unit: sum(ranked[id] for id in unit) / len(unit)))
    sets = [_first(order, count) for order in orders for count in removed]
    ablating = Sets(model, Gates(model), sets, 0.0)
    parts = [ablating.measured(batch) for batch in _batches(request, model)]
    every = Measured.joined(parts)
    losses = np.array([every.change(i).after for i in range(len(sets))])
    losses = losses.reshape(len(orders), len(removed))
    points = []
    heads = len(census(model).heads)
    if ranked is not None:
        points += [
            Point(_ONE_SHOT, n / heads, float(x)) for n, x in zip(removed, losses[0], strict=True)
        ]
        losses = losses[1:]
    for n, column in zip(removed, losses.T, strict=True):
        ends = float(column.min()), float(column.max())
        points.append(Point(_RANDOM, n / heads, float(column.mean()), *ends))
    return points


def _batches(request: PruneRequest, model: Model) -> Iterator[Any]:
    for file in request.held_out or request.files:
        corpus, targets = request.reading.corpora((file,))
        goal = None if targets is None else list(targets.texts())
        rows = rows_of(model, list(corpus.texts()), request.reading)
        yield from batches_in(model, rows, goal, request.reading.context, "prune")


def _units(model: Model, unit: str) -> list[tuple[HeadId, ...]]:
    """What is cut whole."""
    if unit == "head":
        return [(id,) for id in census(model).heads]
    groups = groups_of(model)
    held: dict[Any, list[HeadId]] = {}
    for id in census(model).heads:
        held.setdefault((id.layer_id, groups[id] if unit == "group" else 0), []).append(id)
    return [tuple(ids) for ids in held.values()]


def _first(order: Sequence[tuple[HeadId, ...]], count: int) -> list[HeadId]:
    """Units in order, up to so many heads."""
    found: list[HeadId] = []
    for unit in order:
        if len(found) + len(unit) <= count:
            found += unit
    return found
