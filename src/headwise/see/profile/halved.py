"""The evidence of probes as variables of a profile's table: means and standard errors in each half of the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from headwise.see.profile.asking import Settings
from headwise.see.profile.evidence import FAR
from headwise.see.profile.halves import HALVES
from headwise.see.profile.tally import LEAST_TEXTS, LayerTally, error, mean, of_half

__all__ = ["halved"]

Variable = tuple[tuple[str, ...], np.ndarray, dict[str, str]]

_DIMS = ("half", "probe", "layer", "head")
_ERROR = f"standard error of {{}}, texts as clusters; NaN with fewer than {LEAST_TEXTS} texts"
_SAYS = {
    "mass": "mean attention to what the probe names, over its cases",
    "mass_error": _ERROR.format("probe_mass"),
    "hits": "share of cases whose most attended key (unit) is one the probe names",
    "hits_error": _ERROR.format("probe_hits"),
    "count": "number of cases",
    "texts": "number of texts with a case",
    "unseen": "cases left out, since the query may see nothing of what the probe names",
    "uniform": (
        "mean share of what the probe names among what the query may see: the hits of a uniform choice, and of "
        "probes of tokens the mass of uniform attention"
    ),
    "offset": f"the offset (key - query, up to {FAR} either way) at which the probe names most keys",
    "offset_share": "share of the cases in which it names the one there: the hits of a head that only looks there",
}


def halved(
    settings: Settings, tallies: Sequence[LayerTally], heads: int
) -> tuple[dict[str, Variable], dict[str, Variable]]:
    """The variables and coordinates that hold the evidence; none where nothing was probed.

    Args:
        settings: what was asked.
        tallies: the sums of each layer.
        heads: of the layer that has most; heads that another lacks are NaN.
    """
    if not settings.probes:
        return {}, {}
    probes = len(settings.probes)
    start = settings.statistics.index(settings.probes[0].name)
    mass, hits = slice(start, start + probes), slice(start + probes, start + 2 * probes)

    def each(of: Callable[[LayerTally], np.ndarray]) -> Float[np.ndarray, "half probe layer head"]:
        """A number of each head of each layer in each half."""
        halves = [[_wide(of(of_half(t, half)), heads) for t in tallies] for half in (0, 1)]
        return np.array(halves).swapaxes(1, 2)

    values = {
        "mass": each(lambda sums: mean(sums)[mass]),
        "mass_error": each(lambda sums: error(sums)[mass]),
        "hits": each(lambda sums: mean(sums)[hits]),
        "hits_error": each(lambda sums: error(sums)[hits]),
        "count": each(lambda sums: sums["count"][mass]),
        "texts": each(lambda sums: sums["texts"][mass]),
        "unseen": each(lambda sums: sums["unseen"]),
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        values["uniform"] = each(lambda sums: sums["uniform"]) / values["count"]
    data: dict[str, Variable] = {
        f"probe_{name}": (_DIMS, array, _about(name)) for name, array in values.items()
    }
    offsets = np.stack([tally["offsets"] for tally in tallies], 2)  # [half, probe, layer, offset]
    most = offsets.max(-1)
    cases = np.nanmax(values["count"], axis=-1)
    best = np.where(most > 0, offsets.argmax(-1) - FAR, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(most > 0, most / cases, np.nan)
    data["probe_offset"] = _DIMS[:3], best, _about("offset")
    data["probe_offset_share"] = _DIMS[:3], share, _about("offset_share")
    return data, _coordinates(settings)


def _coordinates(settings: Settings) -> dict[str, Variable]:
    held = {
        "half": (("half",), HALVES, "texts heads are chosen on, and others they are told of on"),
        "probe": (("probe",), [p.name for p in settings.probes], "name of the probe"),
        "probe_by": (("probe",), [p.by for p in settings.probes], "what heads are ranked by"),
        "probe_fixed": (
            ("probe",),
            [p.fixed for p in settings.probes],
            "whether a fixed offset is a baseline",
        ),
        "probe_level": (
            ("probe",),
            ["tokens" if p.units is None else "units" for p in settings.probes],
            "whether it names tokens or units of several",
        ),
        "probe_says": (("probe",), [p.says for p in settings.probes], "the rule in words"),
    }
    return {
        name: (dims, np.array(values), {"long_name": says})
        for name, (dims, values, says) in held.items()
    }


def _about(name: str) -> dict[str, str]:
    return {"long_name": _SAYS[name], "units": "1"}


def _wide(x: Float[np.ndarray, "probe head"], heads: int) -> Float[np.ndarray, "probe all_heads"]:
    return np.pad(x, ((0, 0), (0, heads - x.shape[1])), constant_values=np.nan)
