"""The weights of every head: W_Q, W_K, W_V and W_O of each layer, the norms before them, what embeds and unembeds.

Nothing is looked up by a name: all of it is found by what it does while the model runs on a short input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.anatomy import Layer
from headwise.hub.kept import Naming, naming_of
from headwise.hub.listening import Call, Calls, Norm, linear_call, listening, norm_of, same
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch, watching
from headwise.hub.projections import Projection, Sought, projection
from headwise.hub.shards import is_split
from headwise.names import LayerId, ModelError
from headwise.nn import Decoder

__all__ = ["LayerWeights", "Unembedding", "Weights", "weights_of"]


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The weights of one layer's heads; what was not found is None, and `missing` says why.

    Attributes:
        id: the layer, in the order the layers ran.
        q, k, v: the input maps of its num_heads queries and num_kv_heads keys and values.
        o: the output map.
        query_norm, key_norm, value_norm: the norm right before the queries', the keys' and the values' map.
        result_norm: a norm that what the layer adds goes through before it is added.
        biased: something is added to the scores by position (ALiBi, T5).
        missing: for each of q, k, v, o that is None, the reason.
        names: what its heads are called.
    """

    id: LayerId
    num_heads: int
    num_kv_heads: int
    q: Projection | None
    k: Projection | None
    v: Projection | None
    o: OutputMap | None
    query_norm: Norm | None
    key_norm: Norm | None
    value_norm: Norm | None
    result_norm: Norm | None
    biased: bool
    missing: Mapping[str, str]
    names: Naming


@dataclass(frozen=True, eq=False)
class Unembedding:
    """What makes logits of the stream: logits = norm(x) @ weight.T."""

    path: str
    weight: Float[Tensor, "vocab d_model"]
    norm: Norm | None


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a model's heads.

    Attributes:
        layers: in the order they ran.
        embeddings: the table that embeds the ids of a text, by stream ("" or "encoder", and "decoder"): its path
            and its weight [vocab, d_embed].
        unembedding: None where the model makes no logits over its vocabulary.
    """

    layers: tuple[LayerWeights, ...]
    embeddings: Mapping[str, tuple[str, Tensor]] = field(default_factory=dict)
    unembedding: Unembedding | None = None


def weights_of(model: Model, inputs: Mapping[str, Any]) -> Weights:
    """Find the weights of every head while the model runs on a short input.

    Args:
        model: from `load`.
        inputs: what it is called with, named as transformers does.

    Raises:
        ModelError: no attention layer ran, or the model is split over processes.
    """
    if is_split(model.module):
        raise ModelError(
            f"{model.name} is split over processes, and its weights with it; load it on one to read them"
        )
    layers = model.anatomy.layers
    finder = _Finder()
    with (
        torch.no_grad(),
        watching(model.module) as finder.watch,
        listening(model.module, [layer.module for layer in layers]) as finder.calls,
        model.open(),
        tapped({x.module: Tap(observers=(finder.observer(x),)) for x in layers}),
    ):
        made = model.run(inputs)
        if isinstance(model.module, Decoder):
            made = model.module.logits(made)
        made = getattr(made, "logits", made)
    if not finder.found:
        raise ModelError(f"no head of {model.name} fired: its attention layers did not run")
    embeddings = _embeddings(finder.calls, inputs)
    vocab = {len(table) for _, table in embeddings.values()}
    unembedding = _unembedding(finder.calls, made, vocab, model.module)
    return Weights(tuple(finder.layers()), embeddings, unembedding)


class _Finder:
    """Finds the maps of each layer as it attends."""

    watch: OutputWatch
    calls: Calls

    def __init__(self) -> None:
        self.found: dict[LayerId, dict[str, Any]] = {}
        self.since = 0

    def observer(self, layer: Layer) -> Any:
        """Looks for the maps of the layer's call, and waits for the one that reads its head outputs."""

        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            id = layer.id.free(self.found)
            heads, kv_heads = scores.shape[1], scores.k.shape[1]
            parts: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads}
            parts["names"] = naming_of(layer.module, heads, kv_heads)
            parts["biased"] = scores.bias is not None
            for name, role, x in (
                ("v", "values", v),
                ("k", "keys", scores.k),
                ("q", "queries", scores.q),
            ):
                sought = Sought(role, x.detach(), heads, kv_heads)
                parts[name] = projection(sought, self.calls, self.since, layer.path, layer.module)
            self.since = len(self.calls.linear)
            self.found[id] = parts
            self.watch.expect(z, lambda output: parts.update(o=output))

        return observe

    def layers(self) -> list[LayerWeights]:
        """The layers found, once the pass is over."""
        return [self._layer(id, parts) for id, parts in self.found.items()]

    def _layer(self, id: LayerId, parts: dict[str, Any]) -> LayerWeights:
        q, k, v, o = (parts.get(name) for name in ("q", "k", "v", "o"))
        return LayerWeights(
            id,
            parts["heads"],
            parts["kv_heads"],
            q,
            k,
            v,
            o,
            query_norm=None if q is None else self.calls.norm_before(q.given),
            key_norm=None if k is None else self.calls.norm_before(k.given),
            value_norm=None if v is None else self.calls.norm_before(v.given),
            result_norm=None if o is None else self.calls.norm_after(o.path),
            biased=parts["biased"],
            missing={name: says for name, says in _MISSING.items() if parts.get(name) is None},
            names=parts["names"],
        )


_MISSING = {
    "q": "no linear map gives its queries, even before positions turn them (a norm of each head lies between)",
    "k": "no linear map gives its keys, even before positions turn them (a norm of each head lies between)",
    "v": "no linear map gives its values",
    "o": "no linear map reads its head outputs as they are",
}


def _embeddings(calls: Calls, inputs: Mapping[str, Any]) -> dict[str, tuple[str, Tensor]]:
    """The tables that were given the ids themselves, by the stream that reads them."""
    target = inputs.get("decoder_input_ids")
    ids = {"": inputs.get("input_ids"), "decoder": target}
    found: dict[str, tuple[str, Tensor]] = {}
    for stream, wanted in ids.items():
        for call in calls.embeddings:
            if isinstance(wanted, Tensor) and same(call.given.cpu(), wanted.cpu()):
                weight = call.module.weight
                assert isinstance(weight, Tensor)
                if len(weight) > int(wanted.max()):
                    found.setdefault(stream, (call.path, weight.detach()))
    return found


def _unembedding(
    calls: Calls, logits: Any, vocab: set[int], module: nn.Module
) -> Unembedding | None:
    """The last linear map to the vocabulary, or a table of embeddings used as one; None where there is none."""
    for call in reversed(calls.linear):
        if call.made.shape[-1] in vocab:
            made = linear_call(call.path, call.module, call.given, call.made)
            if made is None:
                return None
            return Unembedding(call.path, made.weight.T, calls.norm_before(call.given))
    if not isinstance(logits, Tensor) or logits.shape[-1] not in vocab:
        return None
    for path, part in module.named_modules():
        if isinstance(part, nn.Embedding) and part.num_embeddings == logits.shape[-1]:
            last = _read_by(part.weight.detach(), logits, calls.norms)
            if last is not None:
                return Unembedding(path, part.weight.detach(), norm_of(last))
    return None


def _read_by(table: Tensor, logits: Tensor, norms: list[Call]) -> Call | None:
    """The call of a norm whose output times the table is the logits."""
    for call in reversed(norms[-4:]):
        if call.made.shape[:-1] == logits.shape[:-1] and call.made.shape[-1] == table.shape[1]:
            again = call.made[..., -1:, :] @ table.T
            if torch.allclose(again, logits[..., -1:, :], rtol=1e-3, atol=1e-3):
                return call
    return None
