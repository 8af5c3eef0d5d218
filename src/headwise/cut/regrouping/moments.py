"""What the maps of each layer read: the mean of x x', over texts or over ids drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.cut.example import example
from headwise.cut.regrouping.maps import LayerMaps
from headwise.hub.load import Model
from headwise.names import LayerId
from headwise.nn import MultiHeadAttention
from headwise.see.circuits.short import vocabulary
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in

__all__ = ["Moments", "gathered", "made_up"]


_ROWS, _LENGTH = 8, 256
"""How many ids are drawn where no texts are given."""

_LITTLE = 1e-3
"""What directions that no token showed count, as a share of the mean direction."""


@dataclass(frozen=True, eq=False)
class Moments:
    """The mean of [x, 1] [x, 1]' over what the queries' map reads, and over what the keys' and values' read."""

    queries: Float[Tensor, "d_in_and_1 d_in_and_1"]
    keys: Float[Tensor, "d_key_and_1 d_key_and_1"]


def made_up(model: Model, seed: int) -> Texts:
    """What to gather moments over where no texts are given: ids drawn from the vocabulary, or an example of it.

    Layers read that more like texts than like channels that have nothing to do with one another.

    Raises:
        ModelError: nothing can be made up for this model.
    """
    inputs = dict(example(model))
    size = vocabulary(model.module)
    if "input_ids" not in inputs or size is None:
        return inputs
    draw = torch.Generator().manual_seed(seed)
    reads = (model.max_length, model.max_target_length)
    shape = (_ROWS, min(_LENGTH, *(most or _LENGTH for most in reads)))
    names = [name for name in ("input_ids", "decoder_input_ids") if name in inputs]
    return {name: torch.randint(size, shape, generator=draw) for name in names}


def gathered(model: Model, layers: Sequence[LayerMaps], texts: Texts) -> dict[LayerId, Moments]:
    """The moments of each layer over the tokens of some texts, padding left out.

    Raises:
        TextError: no text, or one that cannot be read.
    """
    sums = _Sums()
    for batch in batches_in(model, texts, None, None, "regroup"):
        with _listening(layers, partial(sums.add, batch)):
            model.run(batch.inputs)
    return {maps.id: Moments(sums.mean(maps.id, "q"), sums.mean(maps.id, "k")) for maps in layers}


class _Sums:
    def __init__(self) -> None:
        self.sums: dict[tuple[LayerId, str], Tensor] = {}

    def add(self, batch: Batch, id: LayerId, name: str, x: Tensor) -> None:
        """Add [batch, position, d_in]."""
        length = x.shape[1]
        keep = [batch.side(id.stream, i, length, looks=name == "q")[1] for i in range(batch.size)]
        rows = x.detach()[torch.stack(keep).to(x.device)].float()
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        product = rows.T @ rows
        held = self.sums.get((id, name))
        self.sums[id, name] = product if held is None else held.add_(product)

    def mean(self, id: LayerId, name: str) -> Tensor:
        """The count of tokens is the last number of the sum; of few tokens every direction gets a little."""
        total = self.sums[id, name].double()
        count, width = float(total[-1, -1]), len(total)
        mean = total / count
        little = _LITTLE * min(1.0, width / count) * float(mean.diagonal().mean())
        mean.diagonal().add_(little)
        return mean


@contextmanager
def _listening(layers: Sequence[LayerMaps], add: Any) -> Iterator[None]:
    """Hand on what the maps read, [batch, position, d_in], for the time of the `with`."""
    with ExitStack() as stack:
        for maps in layers:
            module = maps.layer.module
            if isinstance(module, MultiHeadAttention):
                hook = module.register_forward_pre_hook(
                    partial(_ours, add, maps.id), with_kwargs=True
                )
                stack.callback(hook.remove)
                continue
            for name, rows in (("q", maps.q), ("k", maps.k)):
                hook = rows.module.register_forward_pre_hook(partial(_theirs, add, maps.id, name))
                stack.callback(hook.remove)
        yield


def _ours(
    add: Any, id: LayerId, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """x makes queries; keys are made of the memory where there is one."""
    memory = args[2] if len(args) > 2 else kwargs.get("memory")
    add(id, "q", args[0])
    add(id, "k", args[0] if memory is None else memory)


def _theirs(add: Any, id: LayerId, name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
    add(id, name, args[0])
