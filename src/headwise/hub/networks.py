"""The feed-forward networks of a model: where each one's W2 is, and how its layer is called."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from headwise.hub.outputs import parameters_of, reads_columns
from headwise.names import HeadError, LayerId, NeuronId

__all__ = ["FeedForwards", "Network", "shape_of"]


@dataclass(frozen=True, eq=False)
class Network:
    """One run of a feed-forward network: W2 and its bias, and how the layer is called.

    A module that runs several times in one pass (ALBERT's) is one network for each time.

    Attributes:
        path: of the linear module that W2 belongs to.
        gated: whether the activation is a product of two maps, act(gate) * up.
    """

    id: LayerId
    path: str
    module: nn.Module
    gated: bool

    @property
    def size(self) -> int:
        """d_ff, the number of neurons."""
        return shape_of(self.module)[0]

    @property
    def weight(self) -> Float[Tensor, "neuron d_model"]:
        """W2: row n is what neuron n adds for an activation of 1."""
        weight, _ = parameters_of(self.module)
        return weight if reads_columns(self.module) else weight.T

    @property
    def bias(self) -> Float[Tensor, " d_model"] | None:
        """What the network adds whatever fires."""
        return parameters_of(self.module)[1]


@dataclass(frozen=True, eq=False)
class FeedForwards:
    """The feed-forward networks of a model, in the order in which they run.

    Attributes:
        left_out: one line on those whose neurons cannot be read (mixtures of experts); "" where there are none.
    """

    model: str
    networks: tuple[Network, ...]
    left_out: str = ""

    def layer(self, id: LayerId) -> Network:
        """The network of a layer.

        Raises:
            HeadError: there is none.
        """
        for network in self.networks:
            if network.id == id:
                return network
        raise HeadError(f"there is no layer {id} of neurons: {self.known}")

    def network_of(self, neuron: NeuronId) -> Network:
        """The network a neuron is in.

        Raises:
            HeadError: there is no such neuron.
        """
        network = next((n for n in self.networks if n.id == neuron.layer_id), None)
        if network is None:
            raise HeadError(f"there is no neuron {neuron}: {self.known}")
        if neuron.neuron >= network.size:
            first, last = network.id.neuron(0), network.id.neuron(network.size - 1)
            raise HeadError(
                f"there is no neuron {neuron}: layer {network.id} has the neurons {first} to {last}"
            )
        return network

    @property
    def known(self) -> str:
        """Which layers there are, in words."""
        by_stream: dict[str, list[Network]] = defaultdict(list)
        for network in self.networks:
            by_stream[network.id.stream].append(network)
        spans = []
        for networks in by_stream.values():
            layers = sorted(network.id for network in networks)
            sizes = sorted({network.size for network in networks})
            span = str(layers[0]) if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
            spans.append(f"{span} (of {' or '.join(map(str, sizes))} neurons)")
        return f"{self.model} has the layers {', '.join(spans)}"


def shape_of(module: nn.Module) -> tuple[int, int]:
    """How many channels a linear module reads, and makes."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    made, read = weight.shape
    return (made, read) if reads_columns(module) else (read, made)
