"""Neurons: the feed-forward networks of a model, and the activations of their neurons.

A feed-forward network is found by what it does and not by its name: while the model runs, a linear map whose input
is an activation of other linear maps (act(x W1), or act(x W_gate) * (x W_up)), and which leads back to as many
channels as those read. That map is W2, and neuron n is channel n of its input: it adds activation * W2[n] to what
the network gives. W_O is none, since head outputs mix positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.overrides import BaseTorchFunctionMode

from headwise.hub.anatomy import is_attention, stream_layers
from headwise.hub.calling import batch_axis
from headwise.hub.load import Model
from headwise.hub.networks import FeedForwards, Network, shape_of
from headwise.hub.origins import Kind, Origins
from headwise.hub.outputs import is_linear
from headwise.hub.shards import is_split
from headwise.names import LayerId, ModelError

__all__ = ["feed_forwards", "watched"]

See = Callable[[Network, Tensor, Tensor], None]


def feed_forwards(model: Model, inputs: Mapping[str, Any]) -> FeedForwards:
    """Find the feed-forward networks of a model by running it once.

    Args:
        model: from `load`.
        inputs: of two positions or more, and better few: all that is computed is kept for the time of the call.

    Raises:
        ModelError: there are none whose neurons can be read, or a tensor parallel plan splits the model.
    """
    if is_split(model.module):
        raise ModelError(
            f"{model.name} is split over processes, and its neurons with it; load it on one to look at them"
        )
    ids = inputs.get("input_ids")
    pooled = ids.shape[0] if isinstance(ids, Tensor) and ids.dim() == 2 and ids.shape[1] > 1 else 0
    search = _Search(model.module, pooled)
    with search.hooked(), search.origins:
        model.run(inputs)
    return search.found(model)


@contextmanager
def watched(model: Model, found: FeedForwards, batch: int, see: See) -> Iterator[None]:
    """Show every run of a network within the `with`: see(network, activations, output).

    Activations are [batch, position, neuron] and the output [batch, position, d_model], its bias included; neither
    may be changed. One pass of the model at a time.

    Args:
        model: which runs.
        found: its networks.
        batch: how many rows it is given.
        see: what is called.
    """
    runs: dict[str, list[Network]] = defaultdict(list)
    for network in found.networks:
        runs[network.path].append(network)
    counts: dict[str, int] = dict.fromkeys(runs, 0)

    def hook(path: str, module: nn.Module, inputs: tuple[Any, ...], out: Tensor) -> None:
        networks = runs[path]
        network = networks[counts[path] % len(networks)]
        counts[path] += 1
        shaped = (_by_rows(model.module, network, x.detach(), batch) for x in (inputs[0], out))
        see(network, *shaped)

    with ExitStack() as stack:
        for path in runs:
            module = model.module.get_submodule(path)
            stack.callback(module.register_forward_hook(partial(hook, path)).remove)
        if any(isinstance(part, nn.TransformerEncoder) for part in model.module.modules()):
            stack.enter_context(BaseTorchFunctionMode())  # torch's fused path is not taken within
        yield


def _by_rows(model: nn.Module, network: Network, x: Tensor, batch: int) -> Tensor:
    """What a network reads or gives as [batch, position, channel]."""
    if x.dim() == 3 and x.shape[1] == batch and batch_axis(model, x) == 1:
        return x.transpose(0, 1)
    if x.dim() == 3 and x.shape[0] == batch:
        return x
    if x.numel() // x.shape[-1] % batch:
        raise ModelError(
            f"layer {network.id} reads {list(x.shape)}, which is not so many positions for each of {batch} rows"
        )
    return x.reshape(batch, -1, x.shape[-1])


@dataclass(eq=False)
class _Search:
    """Watches the linear modules of one pass."""

    model: nn.Module
    pooled: int
    """So many vectors, one for each text, are no positions; 0 = unknown."""
    runs: list[tuple[str, int]] = field(default_factory=list)
    """Of each run of a W2: its path, and how many positions it read."""
    gated: set[str] = field(default_factory=set)
    experts: dict[str, str] = field(default_factory=dict)
    """Paths and classes of modules that hold weights of many networks in one."""

    def __post_init__(self) -> None:
        self.linear = {path: m for path, m in self.model.named_modules() if is_linear(m)}
        self.origins = Origins([*self.model.parameters(), *self.model.buffers()])

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """See every linear module and every batch of experts that runs within the `with`."""
        with ExitStack() as stack:
            for path, module in self.linear.items():
                before = module.register_forward_pre_hook(partial(self._before, path))
                after = module.register_forward_hook(partial(self._after, path))
                stack.callback(before.remove)
                stack.callback(after.remove)
            for path, module in self.model.named_modules():
                if _is_experts(module):
                    hook = module.register_forward_hook(partial(self._expert, path))
                    stack.callback(hook.remove)
            yield

    def _before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0] if inputs else None
        origin = self.origins.of(x) if isinstance(x, Tensor) else None
        if origin is None or x is None or origin.kind is not Kind.ACTIVATED:
            return
        if x.dim() < 2 or (x.dim() == 2 and x.shape[0] == self.pooled):
            return
        neurons, width = shape_of(module)
        into = [shape_of(self.linear[root]) for root in origin.roots]
        if any(read != width for read, _ in into):
            return
        self.runs.append((path, x.numel() // x.shape[-1]))
        if len(into) > 1 or any(made == 2 * neurons for _, made in into):
            self.gated.add(path)

    def _after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
        if isinstance(out, Tensor):
            self.origins.mapped(out, path)

    def _expert(self, path: str, module: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
        self.experts[path] = type(module).__name__

    def found(self, model: Model) -> FeedForwards:
        """What was found, by layers."""
        parts = self._parts()
        whole = [path for path, _ in self.runs if path not in parts]
        experts = {**{path: self._holder(path) for path in parts}, **self.experts}
        homes = {path: path.rpartition(".")[0] for path in whole}
        if len(set(homes.values())) < len(homes):  # two in one module
            homes = {path: path for path in whole}
        ids = stream_layers(self.model, model.anatomy, list(homes.values()))
        networks: dict[LayerId, Network] = {}
        for path in whole:
            id = ids[homes[path]].free(networks)
            networks[id] = Network(id, path, self.linear[path], path in self.gated)
        left_out = ""
        if experts:
            classes = ", ".join(sorted(set(experts.values())))
            left_out = (
                f"mixtures of experts ({classes}) are left out: their neurons read some tokens each"
            )
        if not networks:
            why = left_out or "no linear map of it reads an activation of other linear maps"
            raise ModelError(f"{model.name} has no neurons that can be looked at: {why}")
        return FeedForwards(model.name, tuple(networks.values()), left_out)

    def _parts(self) -> set[str]:
        """W2 of networks that share out the positions of one layer: they and their like in the same container."""
        counts: dict[str, list[int]] = defaultdict(list)
        for path, count in self.runs:
            counts[path].append(count)
        alike: dict[tuple[str, str], list[list[int]]] = {self._like(path): [] for path in counts}
        for path in self.linear:
            if (like := self._like(path)) in alike:
                alike[like].append(counts.get(path, []))
        shared = {like for like, each in alike.items() if len(set(map(tuple, each))) > 1}
        return {path for path in counts if self._like(path) in shared}

    def _like(self, path: str) -> tuple[str, str]:
        """The nearest container of a module, and the module's path within each of its parts."""
        outer = self._container(path)
        return outer, path[len(outer) + 1 :].partition(".")[2] if outer else path

    def _container(self, path: str) -> str:
        """The nearest list or dict of modules that holds it; "" where there is none."""
        words = path.split(".")
        for end in range(len(words) - 1, 0, -1):
            outer = ".".join(words[:end])
            if isinstance(self.model.get_submodule(outer), nn.ModuleList | nn.ModuleDict):
                return outer
        return ""

    def _holder(self, path: str) -> str:
        """The class of the module whose experts these are."""
        outer = self._container(path).rpartition(".")[0]
        return type(self.model.get_submodule(outer)).__name__


def _is_experts(module: nn.Module) -> bool:
    """Whether a module holds the weights of several networks in one, [expert, in, out]."""
    if type(module).__module__.startswith("torch.nn.") or is_attention(module):
        return False
    own = [p for p in module.parameters(recurse=False) if p.dim() == 3 and p.is_floating_point()]
    return any(min(p.shape) > 1 for p in own)
