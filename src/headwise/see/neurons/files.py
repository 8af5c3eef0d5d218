"""Neurons on disk: netCDF holds everything and is read back, JSON is for other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from headwise.files import replacing
from headwise.names import ModelError, NeuronId, OutputError
from headwise.see.neurons.found import Neurons
from headwise.see.neurons.snippets import Context
from headwise.see.neurons.strongest import POSITIVE_NEGATIVE

__all__ = ["check_kind", "load_neurons", "save_neurons"]

_MARK, _VERSION = "headwise_neurons", 1
_NUMBERS = ("mean", "rms", "max", "min", "sparsity")


def check_kind(path: Path) -> None:
    """Refuse a name whose ending says no kind of file.

    Raises:
        OutputError: it does not end in .nc or .json.
    """
    if path.suffix.lower() not in (".nc", ".json"):
        raise OutputError(f"{str(path)!r} says no kind of table; its name must end in .nc or .json")


def save_neurons(found: Neurons, path: Path, neurons: Iterable[str | NeuronId] | None) -> None:
    """Write neurons, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind.
    """
    check_kind(path)
    if path.suffix.lower() == ".nc":
        table = found.table.assign_attrs({_MARK: _VERSION})
        table["gated"] = table["gated"].astype(np.int8)  # netCDF has no booleans
        packing = {name: {"zlib": True, "complevel": 1} for name, v in table.items() if v.ndim > 2}
        data = bytes(table.to_netcdf(engine="h5netcdf", encoding=packing))
    else:
        ids = [NeuronId.parse(id) for id in neurons] if neurons is not None else _all(found)
        held = {"about": dict(found.table.attrs), "neurons": [_told(found, id) for id in ids]}
        text = json.dumps(held, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = (text.replace('{"id":', '\n{"id":') + "\n").encode("utf-8", "backslashreplace")
    with replacing(path, "the neurons") as place:
        place.write_bytes(data)


def load_neurons(path: str | Path) -> Neurons:
    """Read neurons that were written as netCDF (.nc).

    Raises:
        ModelError: the file is missing or holds no neurons.
    """
    try:
        table = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise ModelError(f"{path} cannot be read as neurons in netCDF: {why}") from None
    if table.attrs.pop(_MARK, None) != _VERSION:
        raise ModelError(f"{path} holds no neurons of this version of headwise; make it again")
    table["gated"] = table["gated"].astype(bool)
    return Neurons(table)


def _all(found: Neurons) -> list[NeuronId]:
    return [layer.neuron(n) for layer in found.layers for n in range(found.size(layer))]


def _told(found: Neurons, id: NeuronId) -> dict[str, Any]:
    place = found.at(id)
    layer, neuron = place["layer"], place["neuron"]
    told: dict[str, Any] = {"id": str(id)}
    told |= {name: _number(found.table[name].values[layer, neuron]) for name in _NUMBERS}
    for side, name in enumerate(POSITIVE_NEGATIVE):
        told[name] = {
            "rate": _number(found.table["rate"].values[side, layer, neuron]),
            "peak": _number(found.table["peak"].values[side, layer, neuron]),
            "contexts": [_context(context) for context in found.contexts(id, name)],
        }
    return told


def _context(context: Context) -> dict[str, Any]:
    return {
        "activation": _number(context.activation),
        "before": context.before,
        "token": context.token.label,
        "after": context.after,
        "position": context.position,
    }


def _number(x: float) -> float | None:
    return float(f"{float(x):.7g}") if math.isfinite(x) else None
