"""Scores of heads as a table: an xarray Dataset over layer and head."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from headwise.cut.census import Census, Run
from headwise.cut.ranking.methods import Method
from headwise.cut.ranking.scores import RowScores
from headwise.cut.ranking.settling import SETTLED, halves_of_rows, means, settles
from headwise.hub.kept import kept_of
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.see.made import made_with

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Facts", "table"]

_RULES = {
    "errors": "standard errors over texts as clusters (pieces and copies of one are one), of a ratio of sums",
    "stability_rule": "mean rank correlation (Spearman) of two halves of the texts, over 32 ways to split them",
    "settling_rule": (
        f"texts at which two rankings, each of so many texts of its own, are expected to correlate by {SETTLED}: "
        "Spearman and Brown's formula from the stability"
    ),
}

_SAYS = {
    "standard_error": "standard error of the importance",
    "importance_first": "the importance in one half of the texts",
    "importance_second": "the importance in the other half",
    "rows": "how many rows (texts, or pieces of one) it was measured in",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """What else a table says.

    Attributes:
        method: that made the scores.
        heads: the ones that are shown.
        normalise: whether each layer is divided by its length.
        attrs: further ones.
    """

    method: Method
    heads: Collection[HeadId]
    normalise: bool
    attrs: Mapping[str, Any]


def table(model: Model, census: Census, rows: RowScores, facts: Facts) -> xr.Dataset:
    """The importance of every head with its error, and what two halves of the texts say; a missing head is NaN."""
    import xarray as xr

    chosen = set(facts.heads)
    shown = np.array([id in chosen for id in census.heads])
    texts = len(np.unique(rows.marks))
    mean, error = means(rows)
    halves = halves_of_rows(_only(rows, shown))
    columns = {
        "importance": mean,
        "standard_error": error,
        "importance_first": _spread(halves.first, shown),
        "importance_second": _spread(halves.second, shown),
    }
    if facts.normalise:
        columns = _normalised(census, columns)
    columns["rows"] = (~np.isnan(rows.scores)).sum(0).astype(float)
    both = ("layer", "head")
    grid = {name: _grid(census, np.where(shown, x, np.nan)) for name, x in columns.items()}
    data = {name: (both, x, _about(facts, name)) for name, x in grid.items()}
    attrs = {
        "model": model.name,
        "method": facts.method.name,
        **facts.attrs,
        "distinct": texts,
        "rows": len(rows.counts),
        "losses": int(rows.counts.sum()),
        "mean_loss": float(rows.losses.sum() / max(1, rows.counts.sum())),
        "stability": halves.stability,
        "texts_to_settle": settles(halves.stability, texts),
        **_RULES,
        **made_with(model),
    }
    return xr.Dataset(data, coords=_coordinates(census), attrs=attrs)


def _only(rows: RowScores, shown: np.ndarray) -> RowScores:
    return RowScores(rows.scores[:, shown], rows.losses, rows.counts, rows.marks)


def _spread(values: Float[np.ndarray, " shown"], shown: np.ndarray) -> Float[np.ndarray, " every"]:
    """Of the heads that are shown, as of all."""
    every = np.full(len(shown), np.nan)
    every[shown] = values
    return every


def _normalised(census: Census, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each layer divided by its Euclidean length (Michel et al. 2019, section 5.1); errors by the importance's."""
    found = {name: x.copy() for name, x in columns.items()}
    for layer in {id.layer_id for id in census.heads}:
        own = np.array([id.layer_id == layer for id in census.heads])
        for name, x in columns.items():
            by = columns["importance"] if name == "standard_error" else x
            length = float(np.sqrt(np.nansum(by[own] ** 2)))
            found[name][own] = x[own] / length if length else x[own]
    return found


def _grid(census: Census, values: Float[np.ndarray, " every"]) -> Float[np.ndarray, "layer head"]:
    """One number per head at its original id."""
    places = {run.id: i for i, run in enumerate(census.runs)}
    grid = np.full((len(places), _width(census)), np.nan)
    for id, value in zip(census.heads, values, strict=True):
        grid[places[id.layer_id], id.head] = value
    return grid


def _width(census: Census) -> int:
    return max(_heads_before(run) for run in census.runs)


def _heads_before(run: Run) -> int:
    """How many query heads the layer had before any was cut."""
    kept = kept_of(run.layer.module)
    return len(run.heads) if kept is None else kept.num_heads


def _coordinates(census: Census) -> dict[str, Any]:
    ids = [run.id for run in census.runs]
    plain = {id.stream for id in ids} == {""}
    layers = np.array([id.layer if plain else str(id) for id in ids])
    groups = np.full((len(ids), _width(census)), -1)
    for row, run in zip(groups, census.runs, strict=True):
        row[list(run.heads)] = _groups(run)
    says = {
        "layer": "attention layer, from 0; with its stack where there are several (encoder.0)",
        "head": "query head of the layer, from 0; as it was before any was cut",
        "kv_group": "KV head it reads, -1: none",
    }
    return {
        "layer": ("layer", layers, {"long_name": says["layer"]}),
        "head": ("head", np.arange(_width(census)), {"long_name": says["head"]}),
        "kv_group": (("layer", "head"), groups, {"long_name": says["kv_group"]}),
    }


def _groups(run: Run) -> np.ndarray:
    """The KV head each of the run's heads reads."""
    kept = kept_of(run.layer.module)
    if kept is not None:
        return np.repeat(kept.kv_heads, kept.groups)
    return np.arange(len(run.heads)) // max(1, len(run.heads) // run.num_kv_heads)


def _about(facts: Facts, name: str) -> dict[str, str]:
    if name == "importance":
        scaled = ", each layer divided by its Euclidean length" if facts.normalise else ""
        return {"long_name": facts.method.says + scaled}
    return {"long_name": _SAYS[name]}
