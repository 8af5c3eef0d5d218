"""Rollout (Abnar & Zuidema 2020): how much of each token's input reaches each token through all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.names import ConfigError, HeadError, LayerId
from headwise.see.record import LayerRecord, Record

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["rollout"]

_RULE = (
    "A = {rest:g} W + {residual:g} I for each layer, W the mean over its heads; rows divided by their sums where "
    "those are not 1 (a sink outside the text takes a share), and a row that sees nothing keeps itself; A is "
    "multiplied over the layers (Abnar & Zuidema 2020)"
)
_FIRST = (
    "; weights on the first token were left out, and the others of the row divided by what is left"
)
_CROSS = (
    "; the decoder's own layers and the cross-attention after each in turn, the latter over the encoder's rollout: "
    "a row sums to the share that comes from what the encoder read"
)
_DECODER = "; the decoder's own layers alone, cross-attention left out"


def rollout(
    record: Record,
    residual: float = 0.5,
    *,
    stream: str | None = None,
    layers: slice | None = None,
    without_first: bool = False,
) -> xr.DataArray:
    """Attention rolled out over the layers: row q says how much of each token's input is in token q's output.

    Two n x n matrices are held at a time, whatever the number of layers.

    Args:
        record: of one text.
        residual: the share of each layer's input that its skip connection keeps.
        stream: of an encoder-decoder "encoder", "decoder" (its own layers alone) or "cross", the decoder's layers
            and cross-attention in turn, from the target to the source; None = the first.
        layers: which layers, for instance slice(0, 6); None = all. With "cross" those of the decoder.
        without_first: leave out the weight on the first token, where heads that do nothing rest, and share out the
            rest. The result says so.

    Returns:
        DataArray over (query, key) with the tokens as coordinates, rows summing to 1 (under "cross" to less);
        attrs["rule"] says what was done.

    Raises:
        HeadError: no stream of this model, or no layer left.
        ConfigError: no record of one text, a residual that is no share, or layers that are no slice.
    """
    import xarray as xr

    if not isinstance(record, Record):
        raise ConfigError(
            f"rollout takes the record of one text, came {type(record).__name__}; look at one text, or call it "
            "for each record of a list"
        )
    if layers is not None and not isinstance(layers, slice):
        raise ConfigError(
            f"layers must be a slice, as slice(0, 6), or None for all, came {layers!r}"
        )
    if not 0 <= residual <= 1:
        raise ConfigError(f"residual must be a share, 0 to 1, came {residual!r}")
    streams = list(dict.fromkeys(id.stream for id in record.layers))
    stream = streams[0] if stream is None else stream
    if stream not in streams:
        named = ", ".join(repr(name) for name in streams)
        raise HeadError(f"there is no stream {stream!r}; the streams of this record are {named}")
    kept = layers or slice(None)
    with torch.no_grad():
        if stream == "cross":
            found, last = _across(record, residual, kept, without_first)
        else:
            chosen = _layers(record, stream, kept)
            found, last = _through(chosen, residual, without_first), chosen[-1]
    rule = _RULE.format(rest=1 - residual, residual=residual)
    rule += {"cross": _CROSS, "decoder": _DECODER if "cross" in streams else ""}.get(stream, "")
    return xr.DataArray(
        found.cpu().numpy(),
        dims=("query", "key"),
        coords={
            "query": [token.text for token in last.queries.tokens],
            "key": [token.text for token in last.keys.tokens],
        },
        name="rollout",
        attrs={"model": record.model, "rule": rule + (_FIRST if without_first else "")},
    )


def _layers(record: Record, stream: str, kept: slice) -> list[LayerRecord]:
    chosen = [layer for id, layer in record.layers.items() if id.stream == stream][kept]
    if not chosen:
        raise HeadError(f"no layer is left: {kept} holds none of those of stream {stream!r}")
    return chosen


def _through(
    layers: list[LayerRecord], residual: float, without_first: bool
) -> Float[Tensor, "query key"]:
    """The product over the layers, the first at the right."""
    found: Tensor | None = None
    for layer in layers:
        step = _step(layer, residual, without_first)
        found = step if found is None else step @ found
    assert found is not None
    return found


def _across(
    record: Record, residual: float, kept: slice, without_first: bool
) -> tuple[Float[Tensor, "query key"], LayerRecord]:
    """From the target to the source: each decoder layer mixes the rows, each cross-attention adds to them."""
    encoder = [layer for id, layer in record.layers.items() if id.stream == "encoder"]
    own, across = _layers(record, "decoder", kept), _layers(record, "cross", kept)
    source = _through(encoder, residual, without_first) if encoder else None
    n, keys = across[0].scores.shape[2:]
    found = torch.zeros(n, keys, dtype=torch.float64, device=across[0].scores.q.device)
    for layer, cross in zip(own, across, strict=True):
        looked = _mean(cross, without_first)
        looked = looked if source is None else looked @ source.to(looked.device)
        mixed = _step(layer, residual, without_first) @ found
        found = residual * mixed + (1 - residual) * looked
    return found, across[-1]


def _step(layer: LayerRecord, residual: float, without_first: bool) -> Float[Tensor, "query key"]:
    """A = (1 - residual) W + residual I of one layer, rows summing to 1."""
    step = _mean(layer, without_first).mul_(1 - residual)
    if step.shape[0] != step.shape[1]:
        raise HeadError(f"layer {layer.id} looks at another text, so it cannot be rolled out")
    step.diagonal().add_(residual)
    sums = step.sum(1, keepdim=True)
    blind = sums[:, 0] == 0
    step = step / sums.where(sums > 0, 1.0)
    step.diagonal()[blind] = 1.0
    return step


def _mean(layer: LayerRecord, without_first: bool) -> Float[Tensor, "query key"]:
    """The mean of the layer's patterns, head after head."""
    _, heads, queries, keys = layer.scores.shape
    found = torch.zeros(queries, keys, dtype=torch.float64, device=layer.scores.q.device)
    for head in range(heads):
        for start, stop in layer.scores.blocks():
            rows = layer.scores.rows(start, stop, heads=slice(head, head + 1))
            found[start:stop] += rows[0, 0]
    found /= heads
    if without_first:
        _leave_out_first(found, layer.id)
    return found


def _leave_out_first(found: Float[Tensor, "query key"], id: LayerId) -> None:
    """Share out what is left of each row without its first key, in place; the first token keeps its own row."""
    kept = found.sum(1)
    rows = slice(None) if id.stream == "cross" else slice(1, None)
    found[rows, 0] = 0
    left = found[rows].sum(1)
    share = torch.where(left > 0, kept[rows] / left.where(left > 0, 1.0), 0.0)
    found[rows] *= share[:, None]
