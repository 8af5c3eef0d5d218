"""hw.ledger: parameters, FLOPs, cache and activations of a model or a configuration, by layer and part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headwise.check.counting.building import Asked, model_of
from headwise.check.counting.feeding import Sizes, fed, given_sizes
from headwise.check.counting.ledger import Ledger
from headwise.check.counting.parts import PARTS, SAYS
from headwise.check.counting.passes import Counted, counted
from headwise.check.counting.shadows import in_place
from headwise.hub.load import Model
from headwise.hub.shards import is_split
from headwise.names import ConfigError, ModelError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ledger", "ledger_of"]

OUTSIDE = "outside"
"""The place of what is in no layer."""

_ABOUT = {
    "parameters": ("numbers in the weights; tied ones once, where they stand first", "1"),
    "weights": ("of these the numbers in matrices: without biases and gains", "1"),
    "flops_forward": ("FLOPs of the forward pass over the batch, 2 for a multiply-add", "FLOP"),
    "flops_backward": ("FLOPs of the gradients of all weights over the batch", "FLOP"),
    "activation_bytes": ("bytes that autograd keeps for the backward pass, weights left out", "B"),
    "cache_bytes": ("bytes of keys and values once all positions were read", "B"),
}


def ledger(
    model_or_config: Asked,
    length: int | None = None,
    batch: int = 1,
    *,
    target_length: int | None = None,
    dtype: str | torch.dtype | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Ledger:
    """Count what a model costs: parameters, FLOPs, the bytes of its cache and its activations, by layer and part.

    The model is run on tensors that hold no values, so no weights are needed, and no memory for them; a model that
    needs values to run is run on its own, or on zeros. Counted are matrix products, convolutions and attention, as
    torch's FlopCounterMode counts them: 2 for a multiply-add, all n x n scores whatever the mask. Dropout is left
    out.

    Args:
        model_or_config: from `load`, a module of yours, a `TransformerConfig`, a configuration of transformers or
            its fields, or a name, folder, config.json or hub id.
        length: positions of each row; None = 512, or what the model reads at most.
        batch: rows.
        target_length: positions that the decoder of an encoder-decoder reads; None = length.
        dtype: of the weights; None = as they are stored or as the configuration says.
        inputs: a batch to run on in place of rows of a length, named as transformers does.

    Raises:
        ModelError: nothing of that name, or a model that does not run on such rows.
        ConfigError: a configuration, a length or a batch that cannot be.
        TextError: longer than the model reads.
    """
    model, said = model_of(model_or_config)
    return ledger_of(model, said if dtype is None else dtype, length, batch, target_length, inputs)


def ledger_of(
    model: Model,
    dtype: str | torch.dtype,
    length: int | None = None,
    batch: int = 1,
    target_length: int | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Ledger:
    """The ledger of a model that is there, with weights or without; as `ledger`."""
    if is_split(model.module):
        raise ModelError(
            f"{model.name} is split over processes; count it whole, or its configuration"
        )
    kind = _dtype(dtype)
    if inputs is None:
        given, sizes = fed(model, batch, length, target_length)
    else:
        given = {k: x for k, x in inputs.items() if not _hides_nothing(k, x)}
        sizes = given_sizes(given)
    found = in_place(model, given, kind, lambda subject: counted(subject, sizes))
    name = type(model.module).__name__
    said = str(kind).removeprefix("torch.")
    return Ledger(
        model.name,
        name,
        sizes,
        said,
        _table(found, {"model": model.name, "class": name, "dtype": said}, sizes),
        tuple(found.stages),
        found.peak,
        found.cache is not None,
        tuple(found.tied),
        found.how,
    )


def _table(found: Counted, attrs: Mapping[str, Any], sizes: Sizes) -> xr.Dataset:
    """The costs over places and parts; what is not there costs 0."""
    import xarray as xr

    ids = list(found.order)
    ids += [spot.place for spot in found.costs if spot.place is not None and spot.place not in ids]
    ids = list(dict.fromkeys(ids))
    places = [*(str(id) for id in ids), OUTSIDE]
    parts = [*PARTS, "cache"]
    names = ("parameters", "weights", "forward", "backward", "activation")
    grids = {
        name: np.zeros((len(places), len(parts)), dtype=np.int64) for name in (*names, "cache")
    }
    for spot, cost in found.costs.items():
        row = places.index(OUTSIDE if spot.place is None else str(spot.place))
        for name in names:
            grids[name][row, parts.index(spot.part)] += getattr(cost, name)
    for id, size in (found.cache or {}).items():
        row = places.index(OUTSIDE if id is None else str(id))
        grids["cache"][row, parts.index("cache")] += size
    data = {
        about: (("place", "part"), grid, {"long_name": says[0], "units": says[1]})
        for (about, says), grid in zip(_ABOUT.items(), grids.values(), strict=True)
    }
    return xr.Dataset(
        data,
        coords={"place": places, "part": parts},
        attrs={
            **attrs,
            "batch": sizes.batch,
            "length": sizes.length or 0,
            "target_length": sizes.target or 0,
            "peak_forward_bytes": found.peak,
            "how": found.how,
            "parts": "; ".join(f"{name}: {says}" for name, says in SAYS.items()),
        },
    )


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, str(dtype).removeprefix("torch."), None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point or found.itemsize < 2:
        raise ConfigError(f"{dtype!r} is no dtype for weights; use float32, bfloat16 or float16")
    return found


def _hides_nothing(name: str, x: Any) -> bool:
    """Whether an input is a mask that leaves all positions in, and so says nothing."""
    mask = isinstance(x, Tensor) and x.dim() == 2 and not x.is_meta
    return mask and name.endswith("attention_mask") and bool((x != 0).all())
