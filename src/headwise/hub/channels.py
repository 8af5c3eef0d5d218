"""Channels: which rows and columns of which weights are which head's.

Nothing is looked up by a name: what makes a head's queries, keys and values is told by gradients in one short pass
(`apart`), whatever lies between (positions, a norm of each head); W_O is the map that reads the head outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headwise.core.attention import Edit
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.anatomy import Layer
from headwise.hub.apart import Own, Part
from headwise.hub.kept import Kept, kept_of
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch, reads_columns, watching
from headwise.names import ModelError

__all__ = ["Channels", "Part", "channels_of"]


@dataclass(frozen=True, eq=False)
class Channels:
    """The channels of one attention layer's heads.

    Attributes:
        layer: the module, and its path.
        num_heads, num_kv_heads: how many it has now.
        head_dim, v_dim: numbers in a query, and in a head output.
        query: the tensors that make the queries, by query head, and other tensors by query head (sinks).
        kv: the tensors that make keys and values, by KV head.
        output: the weight of W_O by query head.
        selects: it is given a bias or sinks of all its heads that it does not hold itself.
        returns_bias: it gives such a bias on to the layers after it.
    """

    layer: Layer
    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_dim: int
    query: tuple[Part, ...]
    kv: tuple[Part, ...]
    output: Part
    selects: bool
    returns_bias: bool


def channels_of(
    model: Model, layers: list[Layer], inputs: Mapping[str, Any]
) -> dict[str, Channels]:
    """Find the channels of the heads of some layers while the model runs on a short input.

    Args:
        model: from `load`.
        layers: of its anatomy.
        inputs: what it is called with, named as transformers does.

    Returns:
        By the paths of the layers.

    Raises:
        ModelError: a layer whose heads are not apart in its weights, or that did not run.
    """
    seen: dict[str, _Seen] = {}
    with ExitStack() as stack:
        stack.enter_context(_learning(model.module, [layer.module for layer in layers]))
        watch = stack.enter_context(watching(model.module))
        stack.enter_context(model.open())
        taps = {x.module: Tap(edit=_reading(x, watch, seen)) for x in layers}
        stack.enter_context(tapped(taps))
        for layer in layers:
            hook = partial(_returned, seen, layer.path)
            stack.callback(layer.module.register_forward_hook(hook).remove)
        model.outputs(inputs)
    return {layer.path: _channels(model, layer, seen.get(layer.path)) for layer in layers}


@dataclass(eq=False)
class _Seen:
    """What was seen of a layer's first run."""

    scores: Scores
    num_kv_heads: int
    v_dim: int
    query: list[Part]
    key: list[Part]
    value: list[Part]
    sinks: list[Part]
    shared: list[str]
    output: OutputMap | None = None
    returns_bias: bool = False


def _reading(layer: Layer, watch: OutputWatch, seen: dict[str, _Seen]) -> Edit:
    def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        if layer.path not in seen:
            found = seen[layer.path] = _see(layer, scores, v)
            watch.expect(z, partial(setattr, found, "output"))
        return z

    return edit


def _see(layer: Layer, scores: Scores, v: Tensor) -> _Seen:
    own = Own(layer.path, layer.module)
    k, kept = scores.k, kept_of(layer.module)
    if kept is not None and not kept.even:  # its query heads were each handed their KV head
        first = _firsts(kept)
        k, v = k[:, first], v[:, first]
    query = own.parts(scores.q, 1)
    return _Seen(
        scores,
        k.shape[1],
        v.shape[-1],
        query,
        own.parts(k, 1),
        own.parts(v, 1),
        [] if scores.sink is None else own.parts(scores.sink, 0),
        [] if any(part.matrix for part in query) else own.shared(scores.q, 1),
    )


def _firsts(kept: Kept) -> list[int]:
    """The first query head of each KV head."""
    return [sum(kept.groups[:i]) for i in range(len(kept.groups))]


def _returned(seen: dict[str, _Seen], path: str, module: nn.Module, _: Any, out: Any) -> None:
    """Note whether a layer gives on the bias that it was given or made."""
    found = seen.get(path)
    bias = None if found is None else found.scores.bias
    if found is None or bias is None or not isinstance(out, tuple):
        return
    given = (x for x in out if isinstance(x, Tensor) and x.shape == bias.shape)
    found.returns_bias = any(torch.equal(x, bias) for x in given)


def _channels(model: Model, layer: Layer, seen: _Seen | None) -> Channels:
    """What was seen, checked.

    Raises:
        ModelError: the heads are not apart.
    """
    if seen is None:
        raise ModelError(f"layer {layer.id} of {model.name} cannot be cut: it did not run")
    heads, kv_heads = seen.scores.shape[1], seen.num_kv_heads
    refuse: Callable[[str], ModelError] = lambda why: ModelError(  # noqa: E731
        f"layer {layer.id} of {model.name} cannot be cut ({type(layer.module).__name__}): {why}"
    )
    if seen.output is None:
        raise refuse("no linear map reads its head outputs as they are")
    if not any(part.matrix for part in seen.query):
        norms = ", ".join(part.name.rpartition(".")[0] for part in seen.query)
        raise refuse(
            f"each of its queries depends on all heads through {norms or 'what lies between'}"
            if seen.shared
            else "its queries are made by no weights of its own"
        )
    for what, parts in (("keys", seen.key), ("values", seen.value)):
        if not any(part.matrix for part in parts):
            raise refuse(f"its {what} are not apart by heads in its weights")
    bias, sink = seen.scores.bias, seen.scores.sink
    given = bias is not None and bias.shape[1] == heads > 1
    return Channels(
        layer,
        heads,
        kv_heads,
        seen.scores.q.shape[-1],
        seen.v_dim,
        (*seen.query, *seen.sinks),
        (*seen.key, *seen.value),
        _output(model.module, seen.output, heads),
        given or (sink is not None and not seen.sinks),
        given and seen.returns_bias,
    )


def _output(model: nn.Module, output: OutputMap, heads: int) -> Part:
    """The places of each head in W_O: side by side."""
    module = model.get_submodule(output.path)
    width = output.weight.shape[1]
    places = {h: torch.arange(h * width, (h + 1) * width) for h in range(heads)}
    return Part(f"{output.path}.weight", 0 if reads_columns(module) else 1, places, True)


@contextmanager
def _learning(model: nn.Module, modules: list[nn.Module]) -> Iterator[None]:
    """In eval mode, with gradients for the parameters of some modules alone, for the time of the `with`."""
    own = {id(p) for module in modules for p in module.parameters()}
    before = [(p, p.requires_grad) for p in model.parameters()]
    training = [part for part in model.modules() if part.training]
    try:
        model.eval()
        for p, _ in before:
            p.requires_grad_(id(p) in own and p.is_floating_point())
        with torch.enable_grad():
            yield
    finally:
        for p, wanted in before:
            p.requires_grad_(wanted)
        for part in training:
            part.training = True
