"""neurons: for each neuron of a model the contexts in a corpus that fire it most, gathered while the model runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.networks import FeedForwards, Network
from headwise.hub.neurons import feed_forwards, watched
from headwise.names import ConfigError, LayerId, ModelError, TextError
from headwise.see.neurons.found import COUNTED, Neurons, neuron_table
from headwise.see.neurons.snippets import Snippet, snippet_of, windows_of
from headwise.see.neurons.strongest import LayerTally
from headwise.see.record import Side
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.packing import SPLITTING
from headwise.see.texts.refusing import check_model

__all__ = ["NeuronGatherer", "find_networks", "neurons"]

_STRIDE = 1 << 24
"""Tokens are numbered row * stride + position."""

_FIRST = 16
"""So many tokens of a text are enough to find the networks."""

Progress = Callable[[int, "int | None", int], None]


def neurons(
    model: Model,
    texts: Texts,
    *,
    target: str | Iterable[str] | None = None,
    top: int = 10,
    everywhere: bool = False,
    context: int | None = None,
    progress: Progress | None = None,
) -> Neurons:
    """The contexts of a corpus that fire each neuron most, and how often each fires.

    W1's rows are detectors, the activation is the gate, and W2's rows what is added: neuron n of layer l gives
    activation * W2[n] to the residual stream (Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value
    Memories", who look at the contexts of the largest activations in the same way). The activation is what W2 is
    given: act(x W1 + b), and in gated networks act(gate) * up, which may be large on either side of 0, so that the
    most positive and the most negative are kept apart.

    Memory does not grow with the corpus: kept are `top` places for each neuron and side, and the text around.

    Args:
        model: from `load`.
        texts: as `profile` takes them: texts, rows of ids or batches by name.
        target: for an encoder-decoder given texts, what the decoder reads for each; None = what it writes itself.
        top: how many contexts of each neuron and side to keep.
        everywhere: count special tokens and the first token of a text too; else they are left out, since what fires
            there tells of the place and not of the text (Sun et al. 2024, "Massive Activations").
        context: the most tokens of a piece of a text; None = what the model reads at most.
        progress: called as progress(texts done, texts in all or None, tokens done) after each batch.

    Raises:
        TextError: no text, or nothing in it but first and special tokens.
        ModelError: a model without feed-forward networks that can be looked into, or whose neurons give NaN.
        ConfigError: top is no number from 1.
    """
    gatherer = NeuronGatherer(model, top=top, everywhere=everywhere, context=context)
    total = 1 if isinstance(texts, str) else len(texts) if isinstance(texts, Sized) else None
    for batch in gatherer.read(texts, target):
        gatherer.add(batch)
        if progress is not None:
            progress(gatherer.texts, total, gatherer.tokens)
    return gatherer.result()


class NeuronGatherer:
    """What `neurons` does, batch by batch, so that a run can be stopped between two.

    Attributes:
        texts, tokens: how many were read; of these `counted` tokens are counted.
    """

    def __init__(
        self, model: Model, *, top: int = 10, everywhere: bool = False, context: int | None = None
    ) -> None:
        check_model(model, "neurons")
        if not isinstance(top, int) or top < 1:
            raise ConfigError(f"top must be a whole number from 1, came {top!r}")
        self.model, self.top, self.everywhere, self.context = model, top, everywhere, context
        self.texts = self.tokens = self._rows = 0
        self.networks: FeedForwards | None = None
        self._tallies: dict[LayerId, LayerTally] = {}
        self._snippets: dict[tuple[str, int, int], Snippet] = {}

    def read(self, texts: Texts, target: str | Iterable[str] | None = None) -> Iterator[Batch]:
        """Whatever `neurons` takes as the batches that `add` adds, read as they are needed."""
        return batches_in(self.model, texts, target, self.context, "neurons")

    def find(self, batch: Batch) -> FeedForwards:
        """Find the networks, before anything is added.

        Raises:
            ModelError: there are none whose neurons can be read.
        """
        self.networks = find_networks(self.model, batch)
        return self.networks

    def add(self, batch: Batch) -> None:
        """Run the model on a batch and add its neurons, all or, where something stops it, none.

        Raises:
            ModelError: a neuron gives NaN or infinity.
        """
        networks = self.networks or self.find(batch)
        run = _Pass(batch, self.everywhere, self.top, self._rows * _STRIDE, self._tallies)
        with watched(self.model, networks, batch.size, run.see):
            self.model.run(batch.inputs)
        run.check(self.model)
        self._tallies = {**self._tallies, **run.tallies}
        self._keep(run)
        self._rows += batch.size
        self.texts += batch.size if batch.begun is None else batch.begun
        self.tokens += batch.size * run.longest if batch.tokens is None else batch.tokens

    def _keep(self, run: _Pass) -> None:
        """Keep the text around the places that are kept, and drop what is around others."""
        needed: set[tuple[str, int, int]] = set()
        for id, tally in self._tallies.items():
            places = tally.places.unique().tolist()
            windows = windows_of((place for place in places if place >= 0), _STRIDE)
            needed |= {(id.stream, *window) for window in windows}
        kept: dict[tuple[str, int, int], Snippet] = {}
        for key in needed:
            if key in self._snippets:
                kept[key] = self._snippets[key]
            else:
                stream, row, window = key
                kept[key] = snippet_of(row, run.sides[stream][row - self._rows], window)
        self._snippets = kept

    def result(self) -> Neurons:
        """What there is so far.

        Raises:
            TextError: nothing was added yet, or nothing that counts.
        """
        if self.networks is None or not any(tally.tokens for tally in self._tallies.values()):
            raise TextError(
                "no token counts: special tokens and the first of a text are left out; "
                "give longer texts, or count those too (everywhere=True, --everywhere)"
            )
        keys = sorted(self._snippets)
        numbers = {key: i for i, key in enumerate(keys)}
        attrs: dict[str, Any] = {
            "model": self.model.name,
            "texts": self.texts,
            "tokens": self.tokens,
            "top": self.top,
            "counted": COUNTED[self.everywhere],
            "splitting": SPLITTING,
            "left_out": self.networks.left_out,
        }
        order = {network.id: network for network in self.networks.networks}
        tallies = {id: self._tallies[id] for id in order if id in self._tallies}
        table: xr.Dataset = neuron_table(tallies, numbers, _STRIDE)
        gated = [order[id].gated for id in tallies]
        table = table.assign_coords(gated=("layer", np.array(gated)))
        table["snippets"] = ("text", [self._snippets[key].dumps() for key in keys])
        table.attrs = attrs | {"layers": json.dumps([[id.stream, id.layer] for id in tallies])}
        return Neurons(table)


def find_networks(model: Model, batch: Batch) -> FeedForwards:
    """The feed-forward networks of a model, by the first tokens of a batch where it is one of ids."""
    inputs = batch.inputs
    if set(inputs) == {"input_ids", "attention_mask"}:
        inputs = {name: x[:1, :_FIRST] for name, x in inputs.items()}
    return feed_forwards(model, inputs)


@dataclass(eq=False)
class _Pass:
    """The activations of one batch that count, added layer by layer to copies of the tallies before.

    No layer's activations are kept, and where the pass fails the tallies are as they were.
    """

    batch: Batch
    everywhere: bool
    top: int
    first: int
    before: Mapping[LayerId, LayerTally]
    tallies: dict[LayerId, LayerTally] = field(default_factory=dict)
    longest: int = 0
    sides: dict[str, list[Side]] = field(default_factory=dict)
    counted: dict[tuple[str, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    broken: str = ""

    def see(self, network: Network, activations: Tensor, out: Tensor) -> None:
        """Add a layer's activations at the tokens that count."""
        length = activations.shape[1]
        key = (network.id.stream, length)
        if key not in self.counted:
            self.counted[key] = self._count(*key)
        keep, places = (x.to(activations.device) for x in self.counted[key])
        mine = activations[keep]
        if not self.broken and not bool(mine.sum().isfinite()):
            bad = (~mine.isfinite()).any(0)
            if bool(bad.any()):
                self.broken = str(network.id.neuron(int(bad.int().argmax())))
        tally = self.before.get(network.id)
        tally = LayerTally(network.size, self.top, mine.device) if tally is None else tally.copy()
        tally.add(mine, places + self.first)
        self.tallies[network.id] = tally
        self.longest = max(self.longest, length)

    def check(self, model: Model) -> None:
        """Raise where nothing ran, or a neuron gave no number."""
        if not self.tallies:
            raise ModelError(
                f"no neuron of {model.name} fired: its networks did not run on this input"
            )
        if self.broken:
            raise ModelError(
                f"neuron {self.broken} of {model.name} gives NaN or infinity: its weights, or those of a "
                "layer before, are broken; nothing of these texts was counted"
            )

    def _count(self, stream: str, length: int) -> tuple[Tensor, Tensor]:
        """Which positions count, [batch, position], and the numbers of those."""
        keep = torch.zeros(self.batch.size, length, dtype=torch.bool)
        places = torch.zeros(self.batch.size, length, dtype=torch.int64)
        sides = []
        for i in range(self.batch.size):
            side, real = self.batch.side(stream, i, length, looks=True)
            at = real.nonzero()[:, 0]
            counts = [self._counts(side, n) for n in range(len(side.tokens))]
            keep[i, at] = torch.tensor(counts)
            places[i, at] = torch.arange(len(at)) + i * _STRIDE
            sides.append(side)
        self.sides[stream] = sides
        return keep, places[keep]

    def _counts(self, side: Side, n: int) -> bool:
        """Whether a token counts; positions that are no tokens (of audio, of images) all do."""
        token = side.tokens[n]
        return self.everywhere or token.id < 0 or (n > 0 and not token.special)
