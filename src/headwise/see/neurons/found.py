"""Neurons: what a corpus told of every neuron of a model, as a table with the contexts that fire each most."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from headwise.names import ConfigError, HeadError, LayerId, NeuronId
from headwise.see.neurons.snippets import Context, Snippet, context_of, window_of
from headwise.see.neurons.strongest import POSITIVE_NEGATIVE, LayerTally

__all__ = ["COUNTED", "Neurons", "neuron_table"]

COUNTED = {
    False: "all tokens but special ones and the first of each text (or piece of a text that was cut)",
    True: "all tokens",
}

_SAYS = {
    "activation": "the strongest activations of each side, strongest first: what W2 is given",
    "snippet": "in which of the snippets of text the token is",
    "position": "the position of the token in the row the model read",
    "rate": "share of the tokens whose activation is above 0 (positive) or below 0 (negative)",
    "mean": "mean activation",
    "rms": "root of the mean squared activation",
    "max": "largest activation",
    "min": "smallest activation",
    "sparsity": "1 - mean(|activation|)^2 / mean(activation^2) (Treves & Rolls 1991): 0 where all tokens fire it "
    "alike, towards 1 where few do",
    "peak": "the weakest of the `top` strongest activations of the side, over the rms: how far all of its contexts "
    "stand out",
}


@dataclass(frozen=True, eq=False)
class Neurons:
    """What a corpus told of every neuron. Made by `neurons`.

    `table` is a Dataset over (layer, neuron), and (side, layer, neuron, rank) for the strongest activations, where
    side is "positive" or "negative"; each variable's long_name says what it is. NaN where a layer has fewer neurons
    or a neuron fewer contexts.
    """

    table: xr.Dataset

    def __repr__(self) -> str:
        layers, size = self.table.sizes["layer"], self.table.sizes["neuron"]
        about = self.table.attrs
        return f"Neurons({about['model']!r}, {layers} x {size}, {about['tokens']} tokens)"

    @cached_property
    def layers(self) -> tuple[LayerId, ...]:
        """The layers, in order."""
        return tuple(LayerId(stream, n) for stream, n in json.loads(self.table.attrs["layers"]))

    def size(self, layer: LayerId) -> int:
        """How many neurons a layer has.

        Raises:
            HeadError: there is no such layer.
        """
        if layer not in self.layers:
            raise HeadError(
                f"there is no layer {layer} of neurons; there are {', '.join(map(str, self.layers))}"
            )
        return int(self.table["size"].values[self.layers.index(layer)])

    def at(self, neuron: str | NeuronId) -> dict[str, int]:
        """Where a neuron is in the table, for `table.isel`.

        Raises:
            HeadError: there is no such neuron.
        """
        id = NeuronId.parse(neuron)
        size = self.size(id.layer_id)
        if id.neuron >= size:
            layer = id.layer_id
            raise HeadError(
                f"there is no neuron {id}: layer {layer} has the neurons {layer.neuron(0)} to "
                f"{layer.neuron(size - 1)}"
            )
        return {"layer": self.layers.index(id.layer_id), "neuron": id.neuron}

    def contexts(self, neuron: str | NeuronId, side: str = "positive") -> tuple[Context, ...]:
        """The contexts that fire a neuron most, strongest first.

        Args:
            neuron: `12.345`.
            side: "positive" or "negative" activations.

        Raises:
            HeadError: there is no such neuron.
            ConfigError: no such side.
        """
        if side not in POSITIVE_NEGATIVE:
            raise ConfigError(f"side must be 'positive' or 'negative', came {side!r}")
        place = {**self.at(neuron), "side": POSITIVE_NEGATIVE.index(side)}
        names = ("activation", "snippet", "position")
        rows = zip(*(self.table[n].values[self._index(n, place)] for n in names), strict=True)
        return tuple(
            context_of(self._snippets[int(number)], int(position), float(activation))
            for activation, number, position in rows
            if number >= 0
        )

    def _index(self, name: str, place: Mapping[str, int]) -> tuple[Any, ...]:
        return tuple(place.get(str(dim), slice(None)) for dim in self.table[name].dims)

    @cached_property
    def _snippets(self) -> list[Snippet]:
        return [Snippet.loads(data) for data in self.table["snippets"].values.tolist()]

    def telling(
        self, count: int = 10, layers: Iterable[LayerId] | None = None
    ) -> list[tuple[NeuronId, str]]:
        """The neurons whose contexts tell most, each with its side.

        They are those of largest `peak` among the sides that have all of their `top` contexts, from as many texts
        as at least half of them (a text that repeats itself makes no feature), at most one side of a neuron.
        """
        peak = np.nan_to_num(self.table["peak"].values, nan=-1.0)
        wanted = self.layers if layers is None else list(layers)
        for i, held in enumerate(self.layers):
            if held not in wanted:
                peak[:, i] = -1
        found: dict[NeuronId, str] = {}
        for flat in np.argsort(-peak, axis=None, kind="stable").tolist():
            side, layer, neuron = (int(x) for x in np.unravel_index(flat, peak.shape))
            if len(found) >= count or peak[side, layer, neuron] <= 0:
                break
            numbers = self.table["snippet"].values[side, layer, neuron]
            rows = {self._snippets[n].row for n in numbers.tolist()}
            if len(rows) >= (len(numbers) + 1) // 2:
                id = self.layers[layer].neuron(neuron)
                found.setdefault(id, POSITIVE_NEGATIVE[side])
        return list(found.items())

    def save(self, path: str | Path, neurons: Iterable[str | NeuronId] | None = None) -> None:
        """Write to .nc (everything, which `load_neurons` reads back) or .json.

        Args:
            path: whose name says the kind.
            neurons: for .json, which ones; None = all.

        Raises:
            OutputError: the file cannot be written, or its name says no kind.
        """
        from headwise.see.neurons.files import save_neurons

        save_neurons(self, Path(path), neurons)


def neuron_table(
    tallies: Mapping[LayerId, LayerTally], numbers: Mapping[tuple[str, int, int], int], stride: int
) -> xr.Dataset:
    """Tallies of layers as one table.

    Args:
        tallies: by layer.
        numbers: of each (stream, row, window) the number of its snippet.
        stride: tokens are numbered row * stride + position.
    """
    sizes = [tally.best.shape[1] for tally in tallies.values()]
    most, top = max(sizes), next(iter(tallies.values())).best.shape[2]
    held = {name: np.full((len(sizes), most), np.nan) for name in ("mean", "rms", "max", "min")}
    held["sparsity"] = np.full((len(sizes), most), np.nan)
    sides = {name: np.full((2, len(sizes), most), np.nan) for name in ("rate", "peak")}
    ranks = {
        "activation": np.full((2, len(sizes), most, top), np.nan, dtype=np.float32),
        "snippet": np.full((2, len(sizes), most, top), -1, dtype=np.int32),
        "position": np.full((2, len(sizes), most, top), -1, dtype=np.int32),
    }
    for i, (id, tally) in enumerate(tallies.items()):
        size = tally.best.shape[1]
        for name, values in _of_neurons(tally).items():
            (held if name in held else sides)[name][..., i, :size] = values
        for name, values in _of_contexts(id, tally, numbers, stride).items():
            ranks[name][:, i, :size] = values
    layers = [id.layer if not id.stream else str(id) for id in tallies]
    table = xr.Dataset(
        {
            **{name: (("layer", "neuron"), values) for name, values in held.items()},
            **{name: (("side", "layer", "neuron"), values) for name, values in sides.items()},
            **{name: (("side", "layer", "neuron", "rank"), v) for name, v in ranks.items()},
        },
        {
            "layer": layers,
            "neuron": np.arange(most),
            "side": list(POSITIVE_NEGATIVE),
            "size": ("layer", sizes),
            "counted_tokens": ("layer", [tally.tokens for tally in tallies.values()]),
        },
    )
    for name, says in _SAYS.items():
        table[name].attrs["long_name"] = says
    return table


def _of_neurons(tally: LayerTally) -> dict[str, np.ndarray]:
    """Numbers of each neuron."""
    n = max(tally.tokens, 1)
    sums, squares = tally.sums[1].cpu().numpy(), tally.sums[2].cpu().numpy()
    rms = np.sqrt(squares / n)
    signs = np.array([[1.0], [-1.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        sparsity = 1 - (sums / n) ** 2 / (squares / n)
        peak = tally.best[:, :, -1].double().cpu().numpy() / rms * signs
    return {
        "mean": tally.sums[0].cpu().numpy() / n,
        "rms": rms,
        "max": tally.most.double().cpu().numpy(),
        "min": tally.least.double().cpu().numpy(),
        "sparsity": sparsity,
        "rate": tally.counts.double().cpu().numpy() / n,
        "peak": np.abs(peak),
    }


def _of_contexts(
    id: LayerId, tally: LayerTally, numbers: Mapping[tuple[str, int, int], int], stride: int
) -> dict[str, np.ndarray]:
    """The strongest activations with their places."""
    places = tally.places.cpu().numpy()
    signs = np.array([1.0, -1.0])[:, None, None]
    best: Tensor = tally.best.double().cpu()
    known, inverse = np.unique(places, return_inverse=True)
    mine = [
        -1 if place < 0 else numbers[id.stream, place // stride, window_of(place % stride)]
        for place in known.tolist()
    ]
    return {
        "activation": np.where(places >= 0, best.numpy() * signs, np.nan),
        "snippet": np.array(mine)[inverse].reshape(places.shape),
        "position": np.where(places >= 0, places % stride, -1),
    }
