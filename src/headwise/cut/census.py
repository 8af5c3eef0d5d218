"""The census: which attention layers run in one pass of a model, how often, and with which heads.

It is taken by running the model once on a short input, so it holds for any model that can be looked into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from headwise.core.attention import Observer
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.example import example
from headwise.hub.anatomy import Layer
from headwise.hub.kept import heads_left, heads_of, kept_of
from headwise.hub.load import Model
from headwise.hub.shards import num_kv_heads, whole
from headwise.names import HeadId, LayerId
from headwise.see.looking import refuse_silence, run_id

__all__ = ["Census", "Run", "census", "forget"]


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an attention layer in a pass.

    Attributes:
        id: of the run; a module that runs several times (ALBERT) has one for each.
        layer: the module, and its path.
        number: which run of the module it is, from 0.
        heads: the ids of its query heads in the order it attends with them; of a pruned layer those it kept.
        num_kv_heads: how many key/value heads it has.
        head_dim: numbers in one query or key.
        v_dim: numbers in one head's output.
    """

    id: LayerId
    layer: Layer
    number: int
    heads: tuple[int, ...]
    num_kv_heads: int
    head_dim: int
    v_dim: int

    @property
    def groups(self) -> tuple[int, ...]:
        """Of each KV head, how many query heads read it, in order."""
        kept = kept_of(self.layer.module)
        if kept is not None:
            return kept.groups
        return (len(self.heads) // self.num_kv_heads,) * self.num_kv_heads

    def index(self, head: int) -> int:
        """Where the head of this id is among those the layer attends with."""
        return self.heads.index(head)


@dataclass(frozen=True, eq=False)
class Census:
    """The runs of a model's attention layers, streams and layers in order.

    `begins` are modules that run once in each pass and hold layers that run several times: when one of them
    begins, the counting of runs does.
    """

    runs: tuple[Run, ...]
    begins: tuple[nn.Module, ...]

    @property
    def heads(self) -> tuple[HeadId, ...]:
        """Every head there is."""
        return tuple(run.id.head(head) for run in self.runs for head in run.heads)

    @property
    def by_id(self) -> Mapping[LayerId, Run]:
        """The runs by their ids."""
        return {run.id: run for run in self.runs}

    def of(self, module: nn.Module) -> tuple[Run, ...]:
        """The runs of one module."""
        return tuple(run for run in self.runs if run.layer.module is module)


_KNOWN: WeakKeyDictionary[Model, tuple[int, Census]] = WeakKeyDictionary()
"""By model, of which modules its census was taken, and what it is."""


def census(model: Model, inputs: Mapping[str, Any] | None = None) -> Census:
    """Run the model on a short input and say which layers attended, with which heads.

    Args:
        model: from `load`; it is asked once.
        inputs: what to call it with, named as transformers does; None = made up.

    Raises:
        ModelError: no attention layer ran, or nothing can be made up for this model.
    """
    modules = hash(tuple(map(id, model.module.modules())))
    known = _KNOWN.get(model)
    if known is not None and known[0] == modules:
        return known[1]
    if known is not None:  # modules came or went
        model.__dict__.pop("anatomy", None)
    found = _taken(model, example(model, inputs))
    _KNOWN[model] = (modules, found)
    return found


def forget(model: Model) -> None:
    """Ask again next time: the heads of the model have changed."""
    _KNOWN.pop(model, None)


def _taken(model: Model, inputs: Mapping[str, Any]) -> Census:
    runs: dict[LayerId, Run] = {}
    numbers: Counter[nn.Module] = Counter()

    def observer(layer: Layer) -> Observer:
        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            id = run_id(layer, runs)
            _, _, z = whole(layer.module, scores, v, z)
            heads = heads_of(layer.module, z.shape[1])
            kept = kept_of(layer.module)
            kv_heads = num_kv_heads(layer.module, scores) if kept is None else len(kept.kv_heads)
            dims = (scores.q.shape[-1], z.shape[-1])
            runs[id] = Run(id, layer, numbers[layer.module], heads, kv_heads, *dims)
            numbers[layer.module] += 1

        return observe

    taps = {x.module: Tap(observers=(observer(x),)) for x in model.anatomy.layers}
    with model.open(), tapped(taps), _counted(model.module) as calls:
        model.run(inputs)
    if any(heads_left(layer.module) for layer in model.anatomy.layers):
        refuse_silence(model, len(runs))
    streams = model.anatomy.streams
    order = sorted(runs.values(), key=lambda run: (streams.index(run.id.stream), run.id.layer))
    again = [module for module, number in numbers.items() if number > 1]
    begins = [m for m in model.module.modules() if calls[m] == 1 and _holds(m, again)]
    return Census(tuple(order), tuple(begins))


def _holds(module: nn.Module, parts: list[nn.Module]) -> bool:
    inside = set(module.modules())
    return any(part in inside for part in parts)


@contextmanager
def _counted(model: nn.Module) -> Iterator[Counter[nn.Module]]:
    """How often each module is called within the `with`."""
    calls: Counter[nn.Module] = Counter()
    with ExitStack() as stack:
        for module in model.modules():
            handle = module.register_forward_pre_hook(lambda m, _: calls.update([m]))
            stack.callback(handle.remove)
        with torch.no_grad():
            yield calls
