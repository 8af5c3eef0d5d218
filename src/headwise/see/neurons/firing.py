"""fires: for each token of a text the neurons that fire most, and what they add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.networks import FeedForwards, Network
from headwise.hub.neurons import watched
from headwise.names import ConfigError, HeadError, LayerId, ModelError, NeuronId, TextError
from headwise.see.neurons.gathering import find_networks
from headwise.see.neurons.lens import Lens, lens_of
from headwise.see.record import Side, distinct
from headwise.see.texts.batches import Batch, batches_of, from_inputs
from headwise.see.texts.refusing import check_model, check_target
from headwise.see.wording import Place, places_in

__all__ = ["Fire", "Fires", "LayerFires", "fires"]


@dataclass(frozen=True)
class Fire:
    """One neuron at one token.

    Attributes:
        activation: what W2 is given.
        norm: |activation| * |W2[n]|, the length of what the neuron adds, in the units of the residual stream.
        share: <activation * W2[n], out> / |out|^2 with out the sum over all neurons of the layer (its output
            without the bias): the shares of a layer sum to 1, and one that works against the rest is negative.
    """

    neuron: NeuronId
    activation: float
    norm: float
    share: float


@dataclass(frozen=True, eq=False)
class LayerFires:
    """The neurons of one layer that fire most at each token, by norm, strongest first.

    Attributes:
        output: length of what the whole network adds at each token, without the bias.
        total: the shares of all neurons together, 1 but for rounding (NaN where the network adds nothing).
    """

    id: LayerId
    side: Side
    size: int
    neuron: Int[Tensor, "token rank"]
    activation: Float[Tensor, "token rank"]
    norm: Float[Tensor, "token rank"]
    share: Float[Tensor, "token rank"]
    output: Float[Tensor, " token"]
    total: Float[Tensor, " token"]

    def at(self, token: int) -> list[Fire]:
        """The neurons at a token, strongest first."""
        columns = (x[token].tolist() for x in (self.neuron, self.activation, self.norm, self.share))
        return [
            Fire(self.id.neuron(int(n)), a, norm, share)
            for n, a, norm, share in zip(*columns, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Fires:
    """What fires in one text, by layer. Made by `fires`.

    Attributes:
        layers: in the order in which they run.
        lens: the unembedding through which W2's rows are read; None where the model has none.
        lens_stream: which stream it belongs to.
    """

    model: str
    layers: Mapping[LayerId, LayerFires]
    networks: FeedForwards
    lens: Lens | None
    lens_stream: str
    _raised: dict[tuple[NeuronId, bool, int], tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Fires({self.model!r}, {len(self.tokens)} tokens, {len(self.layers)} layers)"

    @property
    def tokens(self) -> tuple[Any, ...]:
        """The tokens of the text, of the first stream."""
        return next(iter(self.layers.values())).side.tokens

    @property
    def sides(self) -> list[Side]:
        """The texts: one, or in an encoder-decoder the source and the target."""
        return distinct(layer.side for layer in self.layers.values())

    def at(
        self,
        token: int,
        *,
        top: int = 5,
        layers: Sequence[LayerId] | None = None,
        side: Side | None = None,
    ) -> list[Fire]:
        """The neurons that fire most at a token over layers: those of the largest share of their layer's output.

        Args:
            token: its position.
            top: how many.
            layers: of which layers; None = of all.
            side: of which text, for an encoder-decoder; None = the first.
        """
        side = side or self.sides[0]
        if not 0 <= token < len(side.tokens):
            raise TextError(f"there is no token {token}: the text has 0 to {len(side.tokens) - 1}")
        for id in layers or ():
            self.layer(id)
        wanted = [
            layer
            for id, layer in self.layers.items()
            if layer.side.tokens == side.tokens and (layers is None or id in layers)
        ]
        found = [fire for layer in wanted for fire in layer.at(token)]
        return sorted(found, key=lambda fire: -fire.share)[:top]

    def layer(self, id: LayerId) -> LayerFires:
        """What fires in one layer.

        Raises:
            HeadError: there is none.
        """
        if id not in self.layers:
            raise HeadError(f"there is no layer {id} of neurons: {self.networks.known}")
        return self.layers[id]

    def places(self, word: str) -> list[Place]:
        """Where a word stands in the text, and in an encoder-decoder in the target too.

        Raises:
            TextError: nowhere.
        """
        return places_in(self.sides, word)

    def raises(
        self, neuron: str | NeuronId, *, negative: bool = False, top: int = 5
    ) -> tuple[str, ...]:
        """The tokens that a neuron raises most when it fires, strongest first; () where there is no unembedding.

        W2's row read through the unembedding, without the final norm (Geva et al. 2022).

        Args:
            neuron: `12.345`.
            negative: for a negative activation, which adds the row the other way round.
            top: how many tokens.

        Raises:
            HeadError: there is no such neuron.
        """
        id = NeuronId.parse(neuron)
        network = self.networks.network_of(id)
        if self.lens is None or id.stream != self.lens_stream:
            return ()
        key = (id, negative, top)
        if key not in self._raised:
            row = network.weight[id.neuron]
            self._raised[key] = self.lens.raised(-row if negative else row, top)
        return self._raised[key]


def fires(
    model: Model,
    text: str | Mapping[str, Any],
    *,
    target: str | None = None,
    top: int = 5,
) -> Fires:
    """For each token of a text the neurons that fire most in each layer, and what they add.

    Args:
        model: from `load`.
        text: a text, or a transformers batch of one row.
        target: for an encoder-decoder, what the decoder reads; None = what the model itself writes.
        top: how many neurons of each layer to keep at each token: those that add the longest vectors.

    Raises:
        TextError: a text that is empty or longer than the model's context, or a batch of several.
        ModelError: a model without feed-forward networks that can be looked into.
        ConfigError: top is no number from 1.
    """
    check_model(model, "fires")
    if not isinstance(top, int) or top < 1:
        raise ConfigError(f"top must be a whole number from 1, came {top!r}")
    if not isinstance(text, str | Mapping):
        raise TextError(f"fires takes a text or a batch of one row, came {type(text).__name__}")
    check_target(model, target)
    if isinstance(text, Mapping):
        batch = from_inputs(model, text)
        if batch.size != 1:
            raise TextError(f"fires takes one text at a time, came a batch of {batch.size}")
    else:
        (batch,) = batches_of(model, [text], None if target is None else [target], "fires")
    networks = find_networks(model, batch)
    found: dict[LayerId, LayerFires] = {}

    def see(network: Network, activations: Tensor, out: Tensor) -> None:
        found[network.id] = _layer_fires(network, batch, activations, out, top)

    with watched(model, networks, 1, see):
        model.run(batch.inputs)
    last = networks.networks[-1]
    lens = lens_of(model, last.weight.shape[1])
    return Fires(model.name, found, networks, lens, last.id.stream)


def _layer_fires(
    network: Network, batch: Batch, activations: Tensor, out: Tensor, top: int
) -> LayerFires:
    """The strongest neurons of a layer, at the real tokens."""
    side, keep = batch.side(network.id.stream, 0, activations.shape[1], looks=True)
    a, added = (x[0][keep.to(x.device)].float() for x in (activations, out))
    weight, bias = network.weight.float().to(a.device), network.bias
    if bias is not None:
        added = added - bias.float().to(a.device)
    norms = a.abs() * weight.norm(dim=1)
    shares = a * (added @ weight.T) / added.square().sum(1, keepdim=True)
    if not bool(norms.isfinite().all()):
        bad = int((~norms.isfinite()).any(0).int().argmax())
        raise ModelError(
            f"neuron {network.id.neuron(bad)} gives NaN or infinity: its weights, or those of a layer "
            "before, are broken"
        )
    norm, neuron = norms.topk(min(top, norms.shape[1]), dim=1)
    return LayerFires(
        network.id,
        side,
        network.size,
        neuron.cpu(),
        a.gather(1, neuron).cpu(),
        norm.cpu(),
        shares.gather(1, neuron).cpu(),
        added.norm(dim=1).cpu(),
        shares.sum(1).cpu(),
    )
