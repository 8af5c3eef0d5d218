"""How large the attention of a model is, in what a cut can save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from headwise.cut.census import Run, census
from headwise.cut.example import example
from headwise.hub.channels import Channels, Part, channels_of
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.nn import Decoder, EncoderDecoder

__all__ = ["Sizes", "Sizing", "sizes_of"]


@dataclass(frozen=True)
class Sizes:
    """What a model has of heads, and what they cost.

    Attributes:
        heads: query heads, in all runs of all layers.
        kv_heads: key/value heads.
        parameters: of the whole model, shared ones once.
        cache: bytes of keys and values that it keeps for each token it has read or written, in the dtype of its
            weights; 0 where it keeps none. The number by which a layer without heads counts positions is left out.
    """

    heads: int
    kv_heads: int
    parameters: int
    cache: int


def sizes_of(model: Model) -> Sizes:
    """The sizes of a model as it is.

    Args:
        model: from `load`.

    Raises:
        ModelError: no attention layer of it runs.
    """
    runs = census(model).runs
    return Sizes(
        sum(len(run.heads) for run in runs),
        sum(run.num_kv_heads for run in runs),
        sum(p.numel() for p in model.module.parameters()),
        sum(_cached(model, run) * run.num_kv_heads for run in runs),
    )


class Sizing:
    """The sizes that a model would have without some heads, told without cutting any.

    Args:
        model: from `load`.
        parameters: whether parameters are asked for, whose place is then looked for.
    """

    def __init__(self, model: Model, parameters: bool) -> None:
        self._runs = census(model).runs
        self._whole = sizes_of(model)
        self._cached = {run.id: _cached(model, run) for run in self._runs}
        self._costs: dict[str, tuple[int, int]] = {}
        if parameters:
            channels = channels_of(model, list(model.anatomy.layers), example(model))
            self._costs = {path: _costs(model, own) for path, own in channels.items()}

    def without(self, heads: Iterable[HeadId]) -> Sizes:
        """The sizes once these heads are cut."""
        gone = set(heads)
        heads_left = kv_left = cache = 0
        saved: dict[str, int] = {}
        for run in self._runs:
            each = _left(run, gone)
            kv = sum(number > 0 for number in each)
            heads_left, kv_left = heads_left + sum(each), kv_left + kv
            cache += kv * self._cached[run.id]
            query_cost, kv_cost = self._costs.get(run.layer.path, (0, 0))
            cut, kv_cut = len(run.heads) - sum(each), run.num_kv_heads - kv
            saved[run.layer.path] = cut * query_cost + kv_cut * kv_cost  # a shared module once
        parameters = self._whole.parameters - sum(saved.values())
        return Sizes(heads_left, kv_left, parameters, cache)


def _left(run: Run, gone: set[HeadId]) -> list[int]:
    """How many query heads of each KV head stay."""
    left, place = [], 0
    for number in run.groups:
        ids = (run.id.head(head) for head in run.heads[place : place + number])
        left.append(sum(id not in gone for id in ids))
        place += number
    return left


def _costs(model: Model, channels: Channels) -> tuple[int, int]:
    """The parameters of one query head, and of one KV head."""
    shapes: Mapping[str, torch.Size] = {
        name: p.shape for name, p in model.module.named_parameters(remove_duplicate=False)
    }

    def cost(parts: Iterable[Part]) -> int:
        total = 0
        for part in parts:
            shape = shapes[part.name]
            total += len(part.places[0]) * shape.numel() // shape[part.axis]
        return total

    return cost((*channels.query, channels.output)), cost(channels.kv)


def _cached(model: Model, run: Run) -> int:
    """Bytes of the key and value of one KV head for one token; 0 where the layer keeps none."""
    if run.id.stream not in ("", "decoder") or not _writes(model):
        return 0
    size = next(run.layer.module.parameters()).element_size()
    return (run.head_dim + run.v_dim) * size


def _writes(model: Model) -> bool:
    """Whether the model reads on where it has read, with a cache."""
    if not model.foreign:
        return isinstance(model.module, Decoder | EncoderDecoder)
    can = getattr(model.module, "can_generate", None)
    return can is not None and bool(can())
