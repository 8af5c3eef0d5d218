"""Tables with the evidence of probes as a profile has it, of numbers given."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

HALVES = ["choosing", "reporting"]


def evidence(
    probes: dict[str, dict[str, Any]],
    *,
    layers: int = 2,
    heads: int = 3,
    names: list[Any] | None = None,
    model: str = "tiny",
    **attrs: Any,
) -> xr.Dataset:
    """A table of these probes.

    Each is a dict of what differs from the defaults: by, fixed, level, says; and mass, hits, uniform, texts, count,
    unseen, mass_error, hits_error (numbers, or arrays that fit [half, layer, head]), offset and offset_share
    ([half, layer]).
    """
    every, flat = (2, layers, heads), (2, layers)
    usual = {"mass": 0.1, "hits": 0.1, "mass_error": 0.01, "hits_error": 0.01, "uniform": 0.2}
    usual |= {"count": 400, "texts": 40, "unseen": 0}
    data: dict[str, Any] = {}
    probes = {
        name: {"freedom": np.asarray(p.get("texts", 40)) - 1.0, **p} for name, p in probes.items()
    }
    for name, value in {**usual, "freedom": 39.0}.items():
        rows = [
            np.broadcast_to(np.asarray(p.get(name, value), float), every) for p in probes.values()
        ]
        data[f"probe_{name}"] = ("half", "probe", "layer", "head"), np.stack(rows, 1)
    for name, value in {"offset": -1, "offset_share": 0.0}.items():
        rows = [
            np.broadcast_to(np.asarray(p.get(name, value), float), flat) for p in probes.values()
        ]
        data[f"probe_{name}"] = ("half", "probe", "layer"), np.stack(rows, 1)
    about = {"by": "mass", "fixed": True, "level": "tokens", "says": ""}
    about |= {"rival": "", "rival_share": np.nan}
    coords: dict[str, Any] = {
        "half": HALVES,
        "probe": list(probes),
        "layer": list(range(layers)) if names is None else names,
        "head": list(range(heads)),
        "kv_group": (("layer", "head"), np.tile(np.arange(heads), (layers, 1))),
    }
    for key, value in about.items():
        coords[f"probe_{key}"] = "probe", [p.get(key, value) for p in probes.values()]
    held = {"model": model, "texts": 80, "pieces": 80, "tokens": 800, **attrs}
    return xr.Dataset(data, coords, attrs=held)


def one_head(value: float, *, usual: float = 0.1, layer: int = 0, head: int = 0) -> np.ndarray:
    """[half, layer, head] with `value` at one head in both halves."""
    found = np.full((2, 2, 3), usual)
    found[:, layer, head] = value
    return found
