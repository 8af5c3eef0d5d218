"""The strongest cases of one head in texts: who looked at whom, and what it looked at most instead.

The model runs with one tap, on the layer of that head; its pattern is made a block of rows at a time, and no more
than a bounded number of cases is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.anatomy import Layer
from headwise.hub.kept import naming_of
from headwise.hub.load import Model
from headwise.hub.shards import whole
from headwise.names import ConfigError, HeadError, HeadId, LayerId, spans
from headwise.see.looking import refuse_split, run_id
from headwise.see.probes import Probe, chosen
from headwise.see.roles.cases import Example, HeadPattern, TextMap, of_tokens, of_units
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.refusing import check_model

__all__ = ["Example", "Finder", "examples"]

_Pair = tuple[str, tuple[str, ...]]


def examples(
    model: Model,
    texts: Texts,
    head: str | HeadId,
    probe: Probe | str | None = None,
    top: int = 10,
    *,
    target: str | Iterable[str] | None = None,
    context: int | None = None,
) -> list[Example]:
    """The strongest cases of one head in texts, each pair of words once.

    Args:
        model: from `load`.
        texts: as `profile` takes them.
        head: for instance "18.6", or "cross.0.2" in an encoder-decoder.
        probe: whose cases; None = the head's strongest links anywhere, to words at least 3 tokens away.
        top: how many.
        target: as `profile` takes it.
        context: the most tokens of a piece of a text; None = what the model reads.

    Returns:
        the cases with most attention to what the probe names, most first.

    Raises:
        HeadError: not a head id, or not a head of this model.
        ConfigError: no probe of that name, or a top below 1.
        TextError: as `profile` raises it.
    """
    finder = Finder(model, HeadId.parse(head), [probe], top)
    for batch in batches_in(model, texts, target, context, "examples"):
        finder.add(batch)
    return finder.best()[0]


class Finder:
    """Looks for the strongest cases of one head batch by batch, for several probes at once.

    Args:
        model: from `load`.
        head: which.
        probes: whose cases; None among them = the strongest links anywhere.
        top: how many of each.

    Raises:
        ModelError: no Model.
        HeadError: not a head of this model.
        ConfigError: no probe of that name, or a top below 1.
    """

    def __init__(
        self, model: Model, head: HeadId, probes: Sequence[Probe | str | None], top: int = 10
    ) -> None:
        check_model(model, "examples")
        if top < 1:
            raise ConfigError(f"top must be at least 1, came {top}")
        self.model, self.head, self.top = model, head, top
        self.probes = [None if probe is None else chosen([probe])[0] for probe in probes]
        self.layer = _layer(model, head)
        self._held: list[dict[_Pair, Example]] = [{} for _ in probes]

    def add(self, batch: Batch) -> None:
        """Run the model on a batch and keep its strongest cases.

        Raises:
            HeadError: the model has no such head.
        """
        ran: list[LayerId] = []

        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            id = run_id(self.layer, ran)
            ran.append(id)
            if id == self.head.layer_id:
                scores, _, _ = whole(self.layer.module, scores, v, z)
                refuse_split(id, scores, batch)
                self._look(batch, scores)

        with self.model.open(), tapped({self.layer.module: Tap(observers=(observe,))}):
            self.model.run(batch.inputs)
        if self.head.layer_id not in ran:
            others = [layer.id for layer in self.model.anatomy.layers if layer.id not in ran]
            raise _no_layer(self.model, self.head, [*others, *ran])

    def best(self) -> list[list[Example]]:
        """For each probe its strongest cases so far, most first."""
        return [_strongest(held, self.top) for held in self._held]

    def _look(self, batch: Batch, scores: Scores) -> None:
        _, heads, queries, keys = scores.shape
        names = naming_of(self.layer.module, heads, scores.k.shape[1])
        at = names.index(self.head.head)
        if at is None:
            layer = self.head.layer_id
            raise HeadError(
                f"there is no head {self.head}: layer {layer} has the heads {names.said(layer)}"
            )
        pattern = HeadPattern(scores, at)
        for i in range(batch.size):
            looks, keep = batch.side(self.head.stream, i, queries, looks=True)
            seen, key_keep = batch.side(self.head.stream, i, keys, looks=False)
            own = self.head.stream != "cross" and looks.tokens == seen.tokens
            self._of_text(TextMap(pattern, i, looks, keep, seen, key_keep, own))

    def _of_text(self, text: TextMap) -> None:
        for probe, held in zip(self.probes, self._held, strict=True):
            if probe is not None and probe.units is not None:
                found = of_units(probe, text)
            else:
                found = of_tokens(probe, text, self.top)
            for example in found:
                _keep(held, example, self.top)


def _keep(held: dict[_Pair, Example], example: Example, top: int) -> None:
    """Keep the strongest case of each pair of words, and no more of them than are needed."""
    pair = (example.query, example.keys)
    if pair not in held or held[pair].mass < example.mass:
        held[pair] = example
    if len(held) > 8 * top:
        strongest = _strongest(held, top)
        held.clear()
        held.update({(one.query, one.keys): one for one in strongest})


def _strongest(held: dict[_Pair, Example], top: int) -> list[Example]:
    return sorted(held.values(), key=lambda example: -example.mass)[:top]


def _layer(model: Model, head: HeadId) -> Layer:
    """The layer that runs as this one: itself, or the one before it that runs several times (shared layers)."""
    before = [
        layer
        for layer in model.anatomy.layers
        if layer.id.stream == head.stream and layer.id.layer <= head.layer
    ]
    if not before:
        raise _no_layer(model, head)
    return max(before, key=lambda layer: layer.id.layer)


def _no_layer(model: Model, head: HeadId, ran: Sequence[LayerId] = ()) -> HeadError:
    """What to say of a head that is in no layer; a layer that is run several times is known by those that ran."""
    layers = dict.fromkeys([*(layer.id for layer in model.anatomy.layers), *ran])
    known = spans(sorted(layers, key=lambda id: id.layer))
    return HeadError(f"there is no head {head}: the layers of {model.name} are {known}")
