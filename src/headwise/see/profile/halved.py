"""The evidence of probes as variables of a profile's table: means and standard errors in each half of the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from headwise.see.profile.asking import Settings
from headwise.see.profile.evidence import FAR
from headwise.see.profile.halves import HALVES
from headwise.see.profile.tally import LEAST_TEXTS, LayerTally, error, freedom, mean, of_half
from headwise.see.profile.variables import Variable, stacked

__all__ = ["halved"]

_DIMS = ("half", "probe", "layer", "head")
_ERROR = f"standard error of {{}}, texts as clusters; NaN with fewer than {LEAST_TEXTS} texts"
_SAYS = {
    "mass": "mean attention to what the probe names, over its cases",
    "mass_error": _ERROR.format("probe_mass"),
    "hits": "share of cases whose most attended key (unit) is one the probe names",
    "hits_error": _ERROR.format("probe_hits"),
    "count": "number of cases",
    "texts": "number of texts with a case",
    "freedom": (
        "degrees of freedom of the errors: one less than the number of texts of equal numbers of cases that would "
        "say as much, copies left out (Kish 1965), and at least 1"
    ),
    "unseen": "cases left out, since the query may see nothing of what the probe names",
    "uniform": (
        "mean share of what the probe names among what the query may see: the hits of a uniform choice, and of "
        "probes of tokens the mass of uniform attention"
    ),
    "offset": (
        "the offset (key - query) that leads to most keys the probe names; beyond an end of the text it leads to "
        f"the first or the last key, and {-FAR} and {FAR} always do"
    ),
    "offset_share": "share of the cases in which it names the one there: the hits of a head that only looks there",
}


def halved(
    settings: Settings, tallies: Sequence[LayerTally], heads: int, copies: float
) -> tuple[dict[str, Variable], dict[str, Variable]]:
    """The variables and coordinates that hold the evidence; none where nothing was probed.

    Args:
        settings: what was asked.
        tallies: the sums of each layer.
        heads: of the layer that has most; heads that another lacks are NaN.
        copies: how often each text was read, on average.
    """
    if not settings.probes:
        return {}, {}
    probes = len(settings.probes)
    start = settings.statistics.index(settings.probes[0].name)
    mass, hits = slice(start, start + probes), slice(start + probes, start + 2 * probes)

    def each(of: Callable[[LayerTally], np.ndarray]) -> Float[np.ndarray, "half probe layer head"]:
        """A number of each head of each layer in each half."""
        halves = [stacked([of(of_half(t, half)) for t in tallies], heads, 1) for half in (0, 1)]
        return np.stack(halves).swapaxes(1, 2)

    values = {
        "mass": each(lambda sums: mean(sums)[mass]),
        "mass_error": each(lambda sums: error(sums, copies)[mass]),
        "hits": each(lambda sums: mean(sums)[hits]),
        "hits_error": each(lambda sums: error(sums, copies)[hits]),
        "count": each(lambda sums: sums["count"][mass]),
        "texts": each(lambda sums: sums["texts"][mass]),
        "freedom": each(lambda sums: freedom(sums, copies)[mass]),
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
    best = np.where(most > 0, _best(offsets), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(most > 0, most / cases, np.nan)
    data["probe_offset"] = _DIMS[:3], best, _about("offset")
    data["probe_offset_share"] = _DIMS[:3], share, _about("offset_share")
    return data, _coordinates(settings)


def _best(
    offsets: Int[np.ndarray, "half probe layer offset"],
) -> Int[np.ndarray, "half probe layer"]:
    """The offset that leads to most; of several "the last" or "the first", else the least."""
    most = offsets.max(-1)
    order = np.argsort(np.abs(np.arange(-FAR, FAR + 1)), kind="stable")
    found: np.ndarray = order[offsets[..., order].argmax(-1)] - FAR
    found = np.where(offsets[..., 0] == most, -FAR, found)
    return np.where(offsets[..., -1] == most, FAR, found)


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
        "probe_rival": (
            ("probe",),
            ["" if p.rival is None else p.rival[0] for p in settings.probes],
            "another rule that takes no knowledge of the text, for a baseline",
        ),
        "probe_rival_share": (
            ("probe",),
            [np.nan if p.rival is None else p.rival[1] for p in settings.probes],
            "share of the cases it gets right",
        ),
        "probe_says": (("probe",), [p.says for p in settings.probes], "the rule in words"),
    }
    return {
        name: (dims, np.array(values), {"long_name": says})
        for name, (dims, values, says) in held.items()
    }


def _about(name: str) -> dict[str, str]:
    return {"long_name": _SAYS[name], "units": "1"}
