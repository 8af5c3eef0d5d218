"""What the rows of a record say, without ever holding a whole pattern: strongest keys, and numbers of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headwise.core.streaming import Wanted, measure_rows
from headwise.names import ConfigError, HeadError, HeadId
from headwise.see.record import LayerRecord, Record

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["statistics_of", "strongest_of"]

_SAYS = {
    "entropy": ("entropy of the row", "nats"),
    "distance": (
        "mean distance to the keys looked at, under the row; none between two texts",
        "tokens",
    ),
    "largest": ("largest weight of the row", "1"),
    "visible": ("how many keys the row may see", "1"),
}


def strongest_of(
    record: Record, head: HeadId, top: int, eligible: Sequence[bool] | np.ndarray | None, apart: int
) -> xr.Dataset:
    """The strongest keys of each query of a head (`Record.strongest`)."""
    import xarray as xr

    layer = record.layer_of(head)
    keys, at_head = len(layer.keys.tokens), layer.index(head.head)
    for name, value, least in (("top", top, 1), ("apart", apart, 0)):
        if not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} must be a whole number from {least}, came {value!r}")
    wanted = Wanted(top=min(top, keys), eligible=_eligible(eligible, layer), apart=apart)
    found = measure_rows(layer.scores, wanted)
    assert found.top_keys is not None
    assert found.top_weights is not None
    at = found.top_keys[0, at_head].cpu().numpy()
    weights = found.top_weights[0, at_head].double().cpu().numpy()
    texts = np.array([*(token.text for token in layer.keys.tokens), ""])  # -1 is the last
    dims = ("query", "rank")
    return xr.Dataset(
        {
            "key": (dims, at, {"long_name": "index of the key in its text; -1 = none"}),
            "key_text": (dims, texts[at], {"long_name": "text of the key's token"}),
            "weight": (dims, weights, {"long_name": "attention to the key", "units": "1"}),
        },
        coords={
            "query": [token.text for token in layer.queries.tokens],
            "rank": ("rank", np.arange(1, at.shape[1] + 1), {"long_name": "1 = strongest"}),
        },
        attrs={
            "model": record.model,
            "head": str(head),
            "kv_group": layer.kv_group(head.head),
            "apart": apart,
        },
    )


def statistics_of(record: Record, stream: str | None) -> xr.Dataset:
    """Numbers of each row of each head of one stream (`Record.statistics`)."""
    import xarray as xr

    streams = list(dict.fromkeys(id.stream for id in record.layers))
    chosen = streams[0] if stream is None else stream
    if chosen not in streams:
        raise HeadError(
            f"there is no stream {chosen!r}: the model's are {', '.join(map(repr, streams))}"
        )
    layers = [layer for id, layer in record.layers.items() if id.stream == chosen]
    heads = max(layer.naming.total for layer in layers)
    queries = layers[0].queries
    values = {name: np.full((len(layers), heads, len(queries.tokens)), np.nan) for name in _SAYS}
    for i, layer in enumerate(layers):
        found = measure_rows(layer.scores, Wanted())
        for name, array in values.items():
            row = getattr(found, name)[0].double().cpu().numpy()
            array[i, list(layer.naming.heads)] = (
                np.nan if name == "distance" and chosen == "cross" else row
            )
    dims = ("layer", "head", "query")
    about = {name: {"long_name": says, "units": unit} for name, (says, unit) in _SAYS.items()}
    numbers = [layer.id.layer for layer in layers]
    return xr.Dataset(
        {name: (dims, array, about[name]) for name, array in values.items()},
        coords={
            "layer": numbers if chosen == "" else [str(layer.id) for layer in layers],
            "head": np.arange(heads),
            "query": [token.text for token in queries.tokens],
        },
        attrs={"model": record.model, "stream": chosen},
    )


def _eligible(eligible: Sequence[bool] | np.ndarray | None, layer: LayerRecord) -> Tensor | None:
    """Which keys may be named, [1, key]."""
    if eligible is None:
        return None
    found = np.asarray(eligible)
    keys = len(layer.keys.tokens)
    if found.shape != (keys,) or found.dtype != bool:
        raise ConfigError(
            f"eligible must say True or False for each of the {keys} keys, came {list(found.shape)} of "
            f"{found.dtype}"
        )
    return torch.from_numpy(found)[None].to(layer.scores.q.device)
