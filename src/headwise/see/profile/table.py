"""A profile's sums as a table: an xarray Dataset over layer and head, one variable per statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.names import LayerId
from headwise.see.profile.asking import SAMPLES, Settings
from headwise.see.profile.halved import halved
from headwise.see.profile.tally import LEAST_TEXTS, LayerTally, interval, mean, of_both
from headwise.see.profile.variables import Variable, stacked

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["table"]

_SAYS = {
    "entropy": "mean entropy of the rows, in nats",
    "evenness": "mean of entropy / log(keys the row may see), over rows that see two or more",
    "distance": "mean distance to the keys looked at, in tokens, under the row; none between two texts",
    "largest": "mean of the largest weight of each row (confidence, Voita et al. 2019)",
    "result_norm": "mean length of what the head adds to the residual stream, z_h W_O_h",
    "result_share": (
        "mean share of the head's result in what its layer adds, <r_h, sum r> / |sum r|^2; over the heads it sums "
        "to 1, and is negative where a head works against the rest; the bias left out"
    ),
    "received": (
        "mean attention to the key at this position, from the queries that may see it (a sink gets much, "
        "Gu et al. 2024)"
    ),
    "pooled": (
        "the patterns in cells of equal width in relative position: to a cell the sum, from a cell the mean over "
        "its queries; mean over the texts (a piece of a cut one counts as one) that have a query there"
    ),
    "pooled_max": "the largest weight in each cell over all texts",
}

_INTERVAL = (
    "95 % interval of the mean, Student's t over texts as clusters (a ratio estimator; all pieces of a cut text "
    "are one cluster, and copies of a text tell no more than it), kept within what the statistic can be; NaN with "
    f"fewer than {LEAST_TEXTS} texts"
)

_AXES = {
    "layer": "attention layer, from 0; with its stack where there are several (encoder.0)",
    "head": "query head of the layer, from 0",
    "position": "position of the key in its text, in tokens from 0",
    "query_cell": "cell of the query's relative position, from 0: of n tokens, floor(position * pool / n)",
    "key_cell": "cell of the key's relative position, from 0: of n tokens, floor(position * pool / n)",
}
_GROUP = {"long_name": "KV head it reads, -1: none"}

_NOT_NEGATIVE = ("entropy", "distance", "result_norm")
_SHARES = ("evenness", "largest", "top")

_UNITS = {"entropy": "nats", "distance": "tokens"}


def table(
    settings: Settings, layers: Mapping[LayerId, LayerTally], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """The means, intervals and counts of every head; heads and positions that do not exist are NaN.

    Args:
        settings: what was asked.
        layers: the sums, in the order the table is to have.
        attrs: what else to say of it.
    """
    import xarray as xr

    ids = list(layers)
    tallies = list(layers.values())
    heads = max(tally["sum"].shape[2] for tally in tallies)
    data: dict[str, Variable] = {}
    sums = [of_both(tally) for tally in tallies]
    means = stacked([mean(one) for one in sums], heads, axis=1)
    copies = attrs["texts"] / max(1, attrs["distinct"])
    widths = stacked([interval(one, copies) for one in sums], heads, axis=1)
    counts = stacked([one["count"] for one in sums], heads, axis=1)
    both: tuple[str, ...] = ("layer", "head")
    for i, name in enumerate(settings.statistics):
        ends = _within(settings, name, means[:, i], widths[:, i])
        for end, values in zip(("", "_low", "_high"), (means[:, i], *ends), strict=True):
            data[f"{name}{end}"] = both, values, _about(settings, name, end)
        if not _is_hits(settings, name):
            data[f"{name}_count"] = both, counts[:, i], _about(settings, name, "_count")
    if "received" in tallies[0]:
        data |= _received(tallies, heads)
    if "pooled" in tallies[0]:
        data |= _pooled(tallies, heads)
    evidence, of_probes = halved(settings, tallies, heads, copies)
    streams = {id.stream for id in ids}
    numbers = [id.layer for id in ids] if streams == {""} else [str(id) for id in ids]
    groups = _groups(tallies, heads)
    return xr.Dataset(
        data | evidence,
        coords={
            **of_probes,
            **_coordinates(settings, np.array(numbers), heads),
            "kv_group": (both, groups, _GROUP),
        },
        attrs={**attrs, **_exactness(tallies), **_rules(settings, layers)},
    )


def _coordinates(settings: Settings, layers: np.ndarray, heads: int) -> dict[str, Variable]:
    """The axes that the table has, with what their numbers mean."""
    lengths = {"head": heads, "position": settings.positions}
    lengths |= {"query_cell": settings.pool, "key_cell": settings.pool}
    axes: dict[str, np.ndarray] = {"layer": layers}
    axes |= {name: np.arange(length) for name, length in lengths.items() if length}
    return {name: ((name,), values, {"long_name": _AXES[name]}) for name, values in axes.items()}


def _received(tallies: Sequence[LayerTally], heads: int) -> dict[str, Variable]:
    dims = ("layer", "head", "position")
    seen = stacked([tally["seen_by"] for tally in tallies], heads)
    received = stacked([tally["received"] for tally in tallies], heads)
    return {
        "received": (dims, _ratio(received, seen), _one(_SAYS["received"])),
        "received_count": (dims, seen, _one("queries that may see this position")),
    }


def _pooled(tallies: Sequence[LayerTally], heads: int) -> dict[str, Variable]:
    dims = ("layer", "head", "query_cell", "key_cell")
    texts = np.stack([tally["pooled_texts"] for tally in tallies])[:, None, :, None]
    there = _groups(tallies, heads)[:, :, None, None] >= 0
    texts = np.where(there, texts, 0)
    pooled = stacked([tally["pooled"] for tally in tallies], heads)
    most = np.where(texts > 0, stacked([tally["pooled_max"] for tally in tallies], heads), np.nan)
    return {
        "pooled": (dims, _ratio(pooled, texts), _one(_SAYS["pooled"])),
        "pooled_max": (dims, most, _one(_SAYS["pooled_max"])),
    }


def _exactness(tallies: Sequence[LayerTally]) -> dict[str, Any]:
    paths = [p for p in ("kernel", "portable") if any(tally[p] for tally in tallies)]
    verified = np.max([tally["verified"].max() for tally in tallies])
    return {"verified": float(verified), "path": " and ".join(paths)}


def _rules(settings: Settings, layers: Mapping[LayerId, LayerTally]) -> dict[str, Any]:
    without = [str(id) for id, tally in layers.items() if not tally["count"][:, -2].any()]
    rules = {"interval": _INTERVAL, "samples": SAMPLES}
    if without:
        rules["no_results"] = (
            f"layers {', '.join(without)}: no linear map of the model reads the head outputs as they are, so "
            "result_norm and result_share are NaN"
        )
    return rules


def _one(says: str) -> dict[str, str]:
    return {"long_name": says, "units": "1"}


def _within(
    settings: Settings, name: str, means: np.ndarray, widths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the intervals, no further than the statistic can go; one of one's own goes anywhere."""
    probes = [probe.name for probe in settings.probes]
    share = name in (*_SHARES, *probes) or _is_hits(settings, name)
    low = 0.0 if share or name in _NOT_NEGATIVE else -np.inf
    high = 1.0 if share else np.inf
    return (means - widths).clip(low, high), (means + widths).clip(low, high)


def _about(settings: Settings, name: str, part: str) -> dict[str, str]:
    """What a variable is, and its unit."""
    if part == "_count":
        return {"long_name": f"number of cases of {name} (rows that count)", "units": "1"}
    says = _says(settings, name)
    if part:
        says = f"{'lower' if part == '_low' else 'upper'} end for {name} ({says}): {_INTERVAL}"
    unknown = name in settings.functions or name == "result_norm"
    return {"long_name": says} | ({} if unknown else {"units": _UNITS.get(name, "1")})


def _says(settings: Settings, name: str) -> str:
    for probe in settings.probes:
        if name == probe.name:
            return f"mean attention to the key the probe names: {probe.says or probe.name}"
        if name == f"{probe.name}_hits":
            return f"share of queries whose most attended key is the one named: {probe.says or probe.name}"
    if name == "top":
        return f"mean summed weight of the {settings.top} strongest keys of each row"
    return _SAYS.get(
        name, f"mean of {name}, a function of one's own; rows where it is NaN left out"
    )


def _is_hits(settings: Settings, name: str) -> bool:
    return any(name == f"{probe.name}_hits" for probe in settings.probes)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = sums / counts
    return found


def _groups(tallies: Sequence[LayerTally], heads: int) -> np.ndarray:
    """The KV head each query head reads, -1 where there is no such head."""
    groups = np.full((len(tallies), heads), -1)
    for i, tally in enumerate(tallies):
        groups[i, : len(tally["kv_group"])] = tally["kv_group"]
    return groups
