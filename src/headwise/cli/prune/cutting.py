"""The cut that was asked for, down to any share."""

from __future__ import annotations

from typing import Any

import xarray as xr

from headwise.cli.cutting import rows_of
from headwise.cli.prune.command import PruneRequest
from headwise.cut.pruning.pruning import prune
from headwise.cut.telling import Progress
from headwise.hub.load import Model
from headwise.see.texts.given import Texts

__all__ = ["pruned", "texts_of"]


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


def texts_of(request: PruneRequest, model: Model) -> Texts | None:
    """The texts of --texts as rows; None where there are none."""
    if not request.files:
        return None
    corpus, _ = request.reading.corpora(request.files)
    return rows_of(model, list(corpus.texts()), request.reading)
