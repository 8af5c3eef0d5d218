"""The heads of a profile that stand out: for each probe and statistic those that have most of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import xarray as xr

from headwise.names import HeadId

__all__ = ["Best", "Ranking", "striking"]

_STATISTICS = ("evenness", "largest", "distance", "result_share")
_LEAST_TEXTS = 5
"""Of fewer texts no interval is told: it would be as wide as what it is of."""

_LEAST = 0.005
"""What is below this would show as 0.00."""


@dataclass(frozen=True)
class Best:
    """A head, what it has, half the width of the interval (NaN: of too few texts), and its hits for a probe."""

    head: HeadId
    value: float
    within: float
    hits: float | None = None


@dataclass(frozen=True)
class Ranking:
    """The heads that have most of a statistic, most first; `hits` says whether it is a probe."""

    name: str
    best: tuple[Best, ...]
    probe: bool


def striking(profile: xr.Dataset, top: int = 3) -> list[Ranking]:
    """The strongest heads for each probe of a profile, then those of most evenness, largest weight and the like.

    Args:
        profile: from `profile`.
        top: how many heads of each at most; those with less than 0.005 of it are left out.

    Returns:
        the intervals NaN for fewer than five texts (pieces of a cut text count as texts).
    """
    names = [str(name) for name in profile.data_vars]
    probes = [name for name in names if f"{name}_hits" in profile]
    rankings = [Ranking(name, _best(profile, name, top), True) for name in probes]
    held = [name for name in _STATISTICS if name in profile]
    rankings += [Ranking(name, _best(profile, name, top), False) for name in held]
    return rankings


def _best(profile: xr.Dataset, name: str, top: int) -> tuple[Best, ...]:
    found = []
    hits = profile.get(f"{name}_hits")
    few = profile.attrs["pieces"] < _LEAST_TEXTS
    for layer in profile["layer"].values.tolist():
        row = profile.sel(layer=layer)
        for head, value in zip(row["head"].values.tolist(), row[name].values.tolist(), strict=True):
            if not math.isnan(value) and value >= _LEAST:
                low, high = (float(row[f"{name}_{end}"][head]) for end in ("low", "high"))
                within = math.nan if few else max(high - value, value - low)  # one may be cut short
                share = None if hits is None else float(row[f"{name}_hits"][head])
                found.append(Best(HeadId.parse(f"{layer}.{head}"), value, within, share))
    return tuple(sorted(found, key=lambda best: -best.value)[:top])
