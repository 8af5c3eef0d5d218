"""The cut that was asked for, down to any share."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import xarray as xr

from headwise.cli.cutting import rows_of
from headwise.cli.prune.command import PruneRequest
from headwise.cut.pruning.pruning import prune
from headwise.cut.pruning.recipe import STEPS
from headwise.cut.telling import Progress
from headwise.hub.load import Model
from headwise.see.texts.given import Texts

__all__ = ["pruned", "settings_of", "texts_of"]


def pruned(
    request: PruneRequest,
    model: Model,
    scores: xr.Dataset | None,
    keep: float | None,
    progress: Progress | None = None,
) -> Model:
    """The model cut as asked, down to this share."""
    given: dict[str, Any] = {**request.settings, "unit": request.unit, "seed": request.seed}
    given |= {"texts": texts_of(request, model), "quiet": True, "progress": progress}
    if request.heads is not None:
        return prune(model, request.heads, **given)
    return prune(model, scores=scores, keep=keep, **given)


def settings_of(request: PruneRequest) -> dict[str, Any]:
    """All that the cut went by, also what was not given; None where it had no say."""
    given = request.settings
    ranked = request.heads is None and request.scores is None
    chosen = request.heads is None
    reading = {name: value for name, value in asdict(request.reading).items() if value}
    return {
        "heads": request.heads,
        "scores": None if request.scores is None else str(request.scores),
        "texts": [str(file) for file in request.files],
        "held_out": [str(file) for file in request.held_out],
        "reading": {n: str(v) if isinstance(v, Path) else v for n, v in reading.items()},
        "unit": request.unit,
        "keep": request.keep,
        "budget": given.get("budget", "heads") if chosen else None,
        "method": given.get("method", "joint") if ranked else None,
        "steps": given.get("steps", STEPS) if ranked else None,
        "fold": given.get("fold", "mean" if request.files else "zero"),
        "refit": given.get("refit", False),
        "seed": request.seed,
    }


def texts_of(request: PruneRequest, model: Model) -> Texts | None:
    """The texts of --texts as rows; None where there are none."""
    if not request.files:
        return None
    corpus, _ = request.reading.corpora(request.files)
    return rows_of(model, list(corpus.texts()), request.reading)
