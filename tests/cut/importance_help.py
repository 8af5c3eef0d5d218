"""Small models and texts for the tests of importance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

import headwise as hw
from headwise.cut.census import census
from headwise.names import HeadId
from headwise.nn import Decoder, TransformerConfig

ROWS = torch.randint(1, 50, (6, 12), generator=torch.Generator().manual_seed(3))


def small_decoder(**fields: Any) -> hw.Model:
    """Three layers of four heads on two KV heads, drawn wide so that heads matter."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"num_layers": 3, "num_heads": 4, "num_kv_heads": 2, **fields}
    config = TransformerConfig(vocab_size=50, d_model=24, d_ff=32, max_length=64, **sizes)
    module = Decoder(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
    return hw.load(module)


def scores(table: xr.Dataset, model: hw.Model, name: str = "importance") -> np.ndarray:
    """The numbers in the order of the census' heads."""
    return np.array([score(table, id, name) for id in census(model).heads])


def score(table: xr.Dataset, id: HeadId | str, name: str = "importance") -> float:
    id = HeadId.parse(id)
    layer = str(id.layer_id) if id.stream else id.layer
    return float(table[name].sel(layer=layer, head=id.head))


def waves(output: Any, inputs: Any) -> Tensor:
    """A loss of one's own for models that predict nothing: of each row, and not constant under a norm."""
    found = getattr(output, "last_hidden_state", None)
    if found is None:
        found = getattr(output, "logits", output)
    assert isinstance(found, Tensor)
    return (3 * found.flatten(1).float()).sin().mean(1)


def naive(model: hw.Model, rows: Any, heads: Any, loss: Any = None, **how: Any) -> np.ndarray:
    """What the loss rises by without each head, by whole forwards."""
    base = hw.loss(model, rows, loss).mean
    found = []
    for id in heads:
        with hw.ablate(model, id, **how):
            found.append(hw.loss(model, rows, loss).mean - base)
    return np.array(found)


def calls_of(module: nn.Module) -> list[int]:
    """A list that grows by one number with each call of the module's own code."""
    held: list[int] = []
    own = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        held.append(1)
        return own(*args, **kwargs)

    module.forward = forward  # type: ignore[method-assign]
    return held
