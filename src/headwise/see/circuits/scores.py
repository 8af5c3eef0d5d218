"""circuits: what every head can do by its weights, as a table over layer and head.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits": the OV circuit says what is written where a
head looks, the QK circuit where it looks; copying is read off the eigenvalues of the one, and composition off how
much of what an earlier head writes a later one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.weights import LayerWeights, Weights, weights_of
from headwise.see.circuits.folded import Folded, fold
from headwise.see.circuits.products import (
    composed,
    copying,
    length,
    random_composition,
    reading,
    writing,
)
from headwise.see.circuits.short import short_input
from headwise.see.circuits.telling import attributes, back, no_copying, ways

if TYPE_CHECKING:
    import xarray as xr
from headwise.see.texts.refusing import check_model

__all__ = ["circuits"]

KINDS = ("q", "k", "v")

_SAYS = {
    "copying": (
        "sum(l) / sum(|l|) over the eigenvalues l of W_E W_V W_O W_U: 1 raises the logits of what is looked at, "
        "-1 lowers them (Elhage et al. 2021)"
    ),
    "ov_norm": "Frobenius norm of W_V W_O",
    "qk_norm": "Frobenius norm of W_Q W_K^T",
    "q_composition": "how much of what head_from writes head_to's queries read, less that of random matrices",
    "k_composition": "how much of what head_from writes head_to's keys read, less that of random matrices",
    "v_composition": "how much of what head_from writes head_to's values read, less that of random matrices",
}


def circuits(
    model: Model,
    inputs: str | Mapping[str, Any] | None = None,
    *,
    composition: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """What every head can do by its weights: does it copy, how large is it, and whose results does it read.

    Weights are found by what they do while the model runs on a short input, and by no name. The gain of the norm
    before a layer is folded into them. Nothing of vocabulary x vocabulary or d_model x d_model per head is made.

    Args:
        model: from `load`.
        inputs: what to run the model on: a text, or a batch by name; None = a few short texts, or random ids.
        composition: whether to compare pairs of heads, which takes most of the time.
        progress: called as progress(layers done, layers in all).

    Returns:
        Dataset over (layer, head): `copying` (-1 to 1), `ov_norm`, `qk_norm`; and over (head_from, head_to), ids
        of heads: `q_composition`, `k_composition`, `v_composition`, norm(A B) / (norm(A) norm(B)) with A = W_V W_O
        of the earlier head, and B = W_Q W_K^T, W_K W_Q^T or W_V W_O of the later, minus what random matrices of
        the same shapes give (`attrs["baseline"]`). NaN where head_from does not come before, or does not write
        where head_to reads, and where weights were not found: `attrs` say why, and what positions allow.

    Raises:
        ModelError: no Model, none of whose heads fired, or one for which inputs must be given.
    """
    check_model(model, "circuits")
    weights = weights_of(model, short_input(model, inputs))
    heads = _Heads(weights, composition)
    with torch.no_grad():
        for done, layer in enumerate(weights.layers, 1):
            heads.add(layer, fold(layer, model.device))
            if progress is not None:
                progress(done, len(weights.layers))
    return _table(model, weights, heads)


@dataclass(eq=False)
class _Heads:
    """The numbers of the heads of the layers so far, in the order the layers ran.

    Of each layer only what its heads write is kept, for the layers after it.
    """

    weights: Weights
    pairs: bool
    numbers: list[dict[str, Tensor]] = field(default_factory=list)
    composition: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)
    writes: list[tuple[Tensor, tuple[int, ...]] | None] = field(default_factory=list)
    missing: list[tuple[str, str, str]] = field(default_factory=list)
    baselines: dict[str, float] = field(default_factory=dict)
    backs: dict[tuple[str, str] | None, Tensor | None] = field(default_factory=dict)

    def add(self, layer: LayerWeights, parts: Folded) -> None:
        """The next layer."""
        numbers, no_copying = self._alone(layer, parts)
        self.numbers.append(numbers)
        self.missing.append((parts.no_ov, parts.no_qk, no_copying))
        if not self.pairs:
            return
        for kind in KINDS:
            factors = _reads(parts, kind)
            if factors is not None:
                self._pair(layer, kind, factors)
        ov = parts.ov
        shape = None if ov is None else (*ov[0].shape[1:], ov[1].shape[2])
        self.writes.append(None if ov is None or shape is None else (writing(*ov), shape))

    def _alone(self, layer: LayerWeights, parts: Folded) -> tuple[dict[str, Tensor], str]:
        """The numbers of each head by itself, and why none is of copying ("" where it is)."""
        none = torch.full((layer.num_heads,), torch.nan)
        found = {"copying": none, "ov_norm": none, "qk_norm": none}
        if parts.qk is not None:
            found["qk_norm"] = length(*parts.qk)
        if parts.ov is None:
            return found, ""
        found["ov_norm"] = length(*parts.ov)
        way = ways(self.weights, layer)
        if way not in self.backs:
            made = back(self.weights, layer)
            self.backs[way] = None if made is None else made.to(parts.ov[0].device)
        returns = self.backs[way]
        why = no_copying(parts, returns)
        if returns is not None and not why:
            found["copying"] = copying(*parts.ov, returns)
        return found, why

    def _pair(self, later: LayerWeights, kind: str, factors: tuple[Tensor, Tensor]) -> None:
        """Composition with every layer before that writes where this one reads."""
        reads, j = reading(*factors), len(self.writes)
        for i, written in enumerate(self.writes):
            earlier = self.weights.layers[i]
            if written is None or not _meet(earlier, later, kind):
                continue
            writes, shape = written
            if writes.shape[2] == reads.shape[1]:
                by_chance = self._baseline((*shape, factors[0].shape[2], factors[1].shape[2]))
                self.composition[kind, i, j] = composed(writes, reads) - by_chance

    def _baseline(self, shape: tuple[int, ...]) -> float:
        name = "x".join(map(str, shape))
        if name not in self.baselines:
            self.baselines[name] = random_composition(*shape)
        return self.baselines[name]


def _order(model: Model, weights: Weights) -> list[int]:
    """The layers as tables have them: by stream, then by number."""
    streams = model.anatomy.streams
    ids = [layer.id for layer in weights.layers]
    return sorted(range(len(ids)), key=lambda i: (streams.index(ids[i].stream), ids[i].layer))


def _reads(parts: Folded, kind: str) -> tuple[Tensor, Tensor] | None:
    """The two factors of what a head does with what it reads, the one that reads first."""
    if kind == "v":
        return parts.ov
    if parts.qk is None:
        return None
    q, k = parts.qk
    return (q, k) if kind == "q" else (k.mT, q.mT)


def _meet(earlier: LayerWeights, later: LayerWeights, kind: str) -> bool:
    """Whether one layer writes to the stream that another reads."""
    writes = "decoder" if earlier.id.stream == "cross" else earlier.id.stream
    reads = later.id.stream
    if reads == "cross":
        reads = "decoder" if kind == "q" else "encoder"
    return writes == reads


def _attrs(name: str) -> dict[str, str]:
    return {"long_name": _SAYS[name]} | ({} if name.endswith("_norm") else {"units": "1"})


def _table(model: Model, weights: Weights, heads: _Heads) -> xr.Dataset:
    import xarray as xr

    order = _order(model, weights)
    layers = [weights.layers[i] for i in order]
    widest = max(layer.names.total for layer in layers)
    data: dict[str, Any] = {}
    for name in ("copying", "ov_norm", "qk_norm"):
        values = np.full((len(layers), widest), np.nan)
        for row, i in zip(values, order, strict=True):
            at = list(weights.layers[i].names.heads)
            row[at] = heads.numbers[i][name].double().cpu().numpy()
        data[name] = ("layer", "head"), values, _attrs(name)
    coords = _coordinates(layers, widest)
    missing = [heads.missing[i] for i in order]
    attrs = attributes(model, weights, layers, missing)
    if heads.pairs:
        data |= _of_pairs(heads, order)
        ids = [str(layer.id.head(h)) for layer in layers for h in layer.names.heads]
        coords |= {"head_from": ids, "head_to": ids}
        shapes = "d_in x v_dim x d_model x dim x d_out of the four matrices"
        attrs |= {"baseline": dict(heads.baselines), "baseline_shapes": shapes}
    return xr.Dataset(data, coords=coords, attrs=attrs)


def _of_pairs(heads: _Heads, order: Sequence[int]) -> dict[str, Any]:
    starts, total = {}, 0
    for i in order:
        starts[i], total = total, total + heads.weights.layers[i].num_heads
    found = {kind: np.full((total, total), np.nan) for kind in KINDS}
    for (kind, i, j), scores in heads.composition.items():
        rows, columns = (
            slice(starts[x], starts[x] + n) for x, n in zip((i, j), scores.shape, strict=True)
        )
        found[kind][rows, columns] = scores.double().cpu().numpy()
    named = {f"{kind}_composition": values for kind, values in found.items()}
    return {name: (("head_from", "head_to"), x, _attrs(name)) for name, x in named.items()}


def _coordinates(layers: Sequence[LayerWeights], widest: int) -> dict[str, Any]:
    one_stack = {layer.id.stream for layer in layers} == {""}
    groups = np.full((len(layers), widest), -1)
    for row, layer in zip(groups, layers, strict=True):
        row[list(layer.names.heads)] = layer.names.kv
    return {
        "layer": [layer.id.layer if one_stack else str(layer.id) for layer in layers],
        "head": np.arange(widest),
        "kv_group": (("layer", "head"), groups, {"long_name": "KV head it reads, -1: none"}),
    }
