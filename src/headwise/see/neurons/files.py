"""Neurons on disk: netCDF holds everything and is read back, JSON is for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headwise.names import NeuronId
from headwise.see.neurons.found import Neurons
from headwise.see.neurons.snippets import Context
from headwise.see.neurons.strongest import POSITIVE_NEGATIVE
from headwise.see.tables import from_netcdf, plain, save_as, to_json, to_netcdf

__all__ = ["KINDS", "load_neurons", "save_neurons"]

_MARK = "headwise_neurons"
_NUMBERS = ("mean", "rms", "max", "min", "sparsity")

_Saved = tuple[Neurons, list[NeuronId] | None]
"""All neurons, and which of them JSON tells; None = all."""


def save_neurons(found: Neurons, path: Path, neurons: Iterable[str | NeuronId] | None) -> None:
    """Write neurons, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind.
    """
    asked = None if neurons is None else [NeuronId.parse(id) for id in neurons]
    save_as((found, asked), path, _WRITERS, "the neurons")


def load_neurons(path: str | Path) -> Neurons:
    """Read neurons that were written as netCDF (.nc).

    Raises:
        ModelError: the file is missing or holds no neurons.
    """
    return Neurons(from_netcdf(path, _MARK, "neurons"))


def _netcdf(saved: _Saved) -> bytes:
    return to_netcdf(saved[0].table, _MARK, packed=1)


def _json(saved: _Saved) -> bytes:
    found, asked = saved
    told = [_told(found, id) for id in (_all(found) if asked is None else asked)]
    about = {**found.table.attrs, "layers": [str(layer) for layer in found.layers]}
    return to_json({"about": about, "neurons": told})


def _all(found: Neurons) -> list[NeuronId]:
    return [layer.neuron(n) for layer in found.layers for n in range(found.size(layer))]


def _told(found: Neurons, id: NeuronId) -> dict[str, Any]:
    place = found.at(id)
    layer, neuron = place["layer"], place["neuron"]
    told: dict[str, Any] = {"id": str(id)}
    told |= {name: plain(found.table[name].values[layer, neuron]) for name in _NUMBERS}
    for side, name in enumerate(POSITIVE_NEGATIVE):
        told[name] = {
            "rate": plain(found.table["rate"].values[side, layer, neuron]),
            "peak": plain(found.table["peak"].values[side, layer, neuron]),
            "contexts": [_context(context) for context in found.contexts(id, name)],
        }
    return told


def _context(context: Context) -> dict[str, Any]:
    return {
        "activation": plain(context.activation),
        "before": context.before,
        "token": context.token.label,
        "after": context.after,
        "position": context.position,
    }


_WRITERS: dict[str, Callable[[_Saved], bytes]] = {".nc": _netcdf, ".json": _json}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
