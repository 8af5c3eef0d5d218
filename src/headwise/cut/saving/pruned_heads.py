"""Checkpoints of transformers 4 that say what was cut in `pruned_heads`: {"0": [1, 3]}.

There `prune_heads` wrote, for each layer, the ids that the heads had at first, however often it was called, and
sliced the rows of queries, keys and values and the columns of the output (GPT-2: the other way round) in their
order. A layer is the n-th module of self-attention: the one that ALBERT shares is 0. No encoder-decoder was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from headwise.cut.census import census
from headwise.cut.pruning.record import apply_cut, cut_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.hub.anatomy import Layer
from headwise.hub.load import Model, load
from headwise.hub.reading import Prepare
from headwise.names import ConfigError, HeadId

__all__ = ["prepare"]


def prepare(field: Any) -> Prepare:
    """What cuts a model that was built from the rest of the config.

    Raises:
        ConfigError: a field of another form.
    """
    try:
        heads = {int(layer): tuple(map(int, ids)) for layer, ids in field.items()}
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f'pruned_heads={str(field)[:60]} cannot be read; it must be like {{"0": [1, 3]}}, heads by layer'
        ) from None
    return Prepare(partial(_cut, heads=heads))


def _cut(module: nn.Module, heads: Mapping[int, tuple[int, ...]]) -> None:
    """Cut a model without weights as its like with weights, any, is cut."""
    built: Any = type(module)
    with torch.device("cpu"):  # whoever builds the model builds it on meta
        twin = load(built(module.config).eval(), quiet=True)
        ids = _ids(twin, heads)
        cut = cut_of(cut_heads(twin, ids, inplace=True).module) if ids else None
    if cut is not None:
        apply_cut(module, cut)


def _ids(model: Model, heads: Mapping[int, tuple[int, ...]]) -> list[HeadId]:
    """The ids of the heads in every run of their layer."""
    layers = [layer for layer in model.anatomy.layers if layer.id.stream != "cross"]
    if len({layer.id.stream for layer in layers}) > 1:
        streams = " and ".join(dict.fromkeys(layer.id.stream for layer in layers))
        raise ConfigError(
            f"pruned_heads counts the layers of one stack, and {model.name} has {streams}; take the field out of "
            "config.json and cut again with headwise.prune"
        )
    return [id for n, cut in heads.items() for id in _of_layer(model, layers, n, cut)]


def _of_layer(model: Model, layers: list[Layer], n: int, heads: tuple[int, ...]) -> list[HeadId]:
    if not 0 <= n < len(layers):
        raise ConfigError(
            f"pruned_heads names layer {n}, and {model.name} has 0 to {len(layers) - 1}"
        )
    runs = census(model).of(layers[n].module)
    unknown = sorted(set(heads) - set(runs[0].heads))
    if unknown:
        raise ConfigError(
            f"pruned_heads names head {unknown[0]} of layer {n}, which has 0 to {len(runs[0].heads) - 1}"
        )
    return [run.id.head(head) for run in runs for head in heads]
