"""The maps of a layer that regrouping reads and writes: W_Q, W_K, W_V by heads, and W_O.

Nothing is looked up by a name: a map is found by what it gives (`hub.weights`), and its rows by being the same
numbers. What positions do to the keys is told by comparing them before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.example import example
from headwise.hub.anatomy import Layer
from headwise.hub.kept import kept_of
from headwise.hub.load import Model
from headwise.hub.outputs import is_linear, reads_columns
from headwise.hub.projections import Projection
from headwise.hub.weights import LayerWeights, weights_of
from headwise.names import LayerId, ModelError
from headwise.nn import MultiHeadAttention

__all__ = ["HeadRows", "LayerMaps", "OutputRows", "maps_of"]

_GIVEN = 1e-3
"""Relative difference of two lengths up to which they are the same; positions change nothing smaller."""


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Where the queries, keys or values of a layer are made: rows of a linear module, head by head."""

    module: nn.Module
    path: str
    first: int
    heads: int
    dim: int

    @property
    def rows(self) -> slice:
        """Those of all heads."""
        return slice(self.first, self.first + self.heads * self.dim)

    def read(self) -> Float[Tensor, "head d_in_and_1 dim"]:
        """The map of each head in float64, its bias (or 0) as the last row."""
        weight = _oriented(self.module).detach()[self.rows].double()
        bias = self.module.bias
        last = weight.new_zeros(len(weight)) if not isinstance(bias, Tensor) else bias[self.rows]
        whole = torch.cat([weight, last.detach().double()[:, None]], 1)
        by_head: Tensor = whole.unflatten(0, (self.heads, self.dim)).transpose(1, 2)
        return by_head

    def write(self, x: Float[Tensor, "head d_in_and_1 dim"]) -> None:
        """Put the maps of some heads in the place of the first ones."""
        rows = x.transpose(1, 2).flatten(0, 1)
        place = slice(self.first, self.first + len(rows))
        with torch.no_grad():
            _oriented(self.module)[place] = rows[:, :-1].to(_weight(self.module))
            if isinstance(self.module.bias, Tensor):
                self.module.bias[place] = rows[:, -1].to(self.module.bias)


@dataclass(frozen=True, eq=False)
class OutputRows:
    """Where W_O of a layer is: a linear module that reads the heads side by side."""

    module: nn.Module
    heads: int

    def read(self) -> Float[Tensor, "head v_dim d_model"]:
        """W_O of each head in float64."""
        by_head: Tensor = _oriented(self.module).detach().double().T.unflatten(0, (self.heads, -1))
        return by_head

    def write(self, x: Float[Tensor, "head v_dim d_model"]) -> None:
        """Put others in their place."""
        with torch.no_grad():
            _oriented(self.module).copy_(x.flatten(0, 1).T.to(_weight(self.module)))


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """The maps of one layer.

    Attributes:
        id: of the layer.
        layer: its module, and its path.
        q, k, v: where its queries, keys and values are made.
        o: where W_O is; None where something lies between it and the head outputs.
        pairs: places [2, pair] of the channels of keys that positions turn together; None where positions do
            something else to them, so that they may be in no other basis; [2, 0] where they leave them alone.
        moves: whether its heads may stand in another order: nothing else belongs to a head.
    """

    id: LayerId
    layer: Layer
    q: HeadRows
    k: HeadRows
    v: HeadRows
    o: OutputRows | None
    pairs: Tensor | None
    moves: bool


def maps_of(model: Model) -> list[LayerMaps]:
    """Find the maps of every layer while the model runs on a short input.

    Raises:
        ModelError: a layer that has no number of KV heads to change, or whose maps are not found.
    """
    inputs = example(model)
    for layer in model.anatomy.layers:
        check_says(model, layer)
    found = weights_of(model, inputs).layers
    scores = _scores(model, inputs)
    by_id = {layer.id: layer for layer in model.anatomy.layers}
    if len(found) != len(by_id):
        raise ModelError(
            f"{model.name} runs some of its attention layers several times, or not at all; "
            "its heads cannot be regrouped"
        )
    return [_maps(model, by_id[each.id], each, scores[each.id]) for each in found]


def check_says(model: Model, layer: Layer) -> None:
    """Refuse a layer that cannot have fewer KV heads than query heads, or was cut unevenly.

    Raises:
        ModelError: it cannot.
    """
    module, kept = layer.module, kept_of(layer.module)
    if kept is not None and (not kept.even or not kept.heads):
        raise ModelError(
            f"layer {layer.id} of {model.name} has no equal groups any more, as heads of it were cut; "
            "regroup first, then cut"
        )
    if not says(module):
        raise ModelError(
            f"{model.name} ({type(module).__name__}) has no number of key/value heads to change; "
            "use a model that has one (num_key_value_heads), or that hw.load runs in blocks of headwise.nn"
        )


def says(module: nn.Module) -> bool:
    """Whether an attention module can have fewer KV heads than query heads."""
    if isinstance(module, MultiHeadAttention):
        return True
    homes = (module, getattr(module, "config", None))
    return any(isinstance(getattr(home, name, None), int) for home in homes for name in KV_HEADS)


KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_head")
"""What transformers calls the number of KV heads."""


def _maps(model: Model, layer: Layer, weights: LayerWeights, scores: Scores) -> LayerMaps:
    parts: dict[str, HeadRows] = {}
    for name in ("q", "k", "v"):
        made: Projection | None = getattr(weights, name)
        if made is None:
            raise ModelError(
                f"layer {layer.id} of {model.name} cannot be regrouped: {weights.missing[name]}"
            )
        rows = _rows(model.module, made)
        if rows is None:
            raise ModelError(
                f"layer {layer.id} of {model.name} cannot be regrouped: {made.path} does not hold "
                "its heads one after the other"
            )
        parts[name] = rows
    o = None
    if weights.o is not None:
        o = OutputRows(model.module.get_submodule(weights.o.path), weights.num_heads)
    assert weights.k is not None
    free = not weights.biased and scores.sink is None and o is not None
    return LayerMaps(
        layer.id,
        layer,
        parts["q"],
        parts["k"],
        parts["v"],
        o,
        turned_pairs(weights.k, scores),
        free,
    )


def _rows(model: nn.Module, made: Projection) -> HeadRows | None:
    """The rows of the linear module that hold exactly these maps."""
    module = model.get_submodule(made.path)
    if not is_linear(module):
        return None
    weight, (heads, _, dim) = _oriented(module), made.weight.shape
    wanted = made.weight.transpose(1, 2).flatten(0, 1)
    for first in range(0, len(weight) - heads * dim + 1, dim):
        place = weight[first : first + heads * dim]
        if torch.equal(place[0], wanted[0]) and torch.equal(place, wanted):
            return HeadRows(module, made.path, first, heads, dim)
    return None


def turned_pairs(made: Projection, scores: Scores) -> Tensor | None:
    """Which channels of the keys positions turn together, [2, pair]; None where it is none of the usual ways."""
    dim = scores.k.shape[-1]
    if not made.turned:
        return torch.empty(2, 0, dtype=torch.long)
    given = made.given.reshape(scores.k.shape[0], scores.k.shape[2], -1).float()
    before = torch.einsum("bpi,hid->bhpd", given, made.weight.float())
    if made.bias is not None:
        before = before + made.bias.float()[:, None]
    after = scores.k.detach().float()
    for pairs in _layouts(dim):
        if _same_lengths(before, after, pairs):
            return pairs
    return None


def _layouts(dim: int) -> Iterator[Tensor]:
    """The usual pairs: half a head apart, half of what is turned apart, neighbours."""
    channels = torch.arange(dim)
    for turned in (dim, dim // 2, dim // 4):
        if turned > 1 and turned % 2 == 0:
            yield channels[:turned].view(2, -1)
    if dim % 2 == 0:
        yield channels.view(-1, 2).T


def _same_lengths(before: Tensor, after: Tensor, pairs: Tensor) -> bool:
    """Whether these pairs keep their lengths, times one number, and all other channels are as they were."""
    one, other = (
        (x[..., pairs[0]].square() + x[..., pairs[1]].square()).sqrt() for x in (before, after)
    )
    factor = float((one * other).sum() / (one * one).sum().clamp_min(1e-30))
    room = _GIVEN * float(one.max())
    rest = [i for i in range(before.shape[-1]) if i not in set(pairs.flatten().tolist())]
    kept = not rest or float((before - after)[..., rest].abs().max()) <= room
    return kept and float((one * factor - other).abs().max()) <= room


def _scores(model: Model, inputs: Mapping[str, Any]) -> dict[LayerId, Scores]:
    """What each layer's attention was given in one pass."""
    found: dict[LayerId, Scores] = {}

    def observing(layer: Layer) -> Any:
        return lambda scores, v, z: found.setdefault(layer.id, scores)

    taps = {x.module: Tap(observers=(observing(x),)) for x in model.anatomy.layers}
    with model.open(), tapped(taps):
        model.run(inputs)
    return found


def _weight(module: nn.Module) -> Tensor:
    assert isinstance(module.weight, Tensor)
    return module.weight


def _oriented(module: nn.Module) -> Float[Tensor, "out in"]:
    """The weight as [out, in], the module's own memory."""
    weight = _weight(module)
    return weight.T if reads_columns(module) else weight
