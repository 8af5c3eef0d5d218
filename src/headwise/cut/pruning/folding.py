"""What is given back of heads that are cut, for free: their mean results, folded into the bias of W_O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.attention import Observer
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.census import Run, census
from headwise.cut.example import example
from headwise.cut.pruning.outputs import NewOutput
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch, watching
from headwise.names import HeadId, LayerId, ModelError

__all__ = ["Losing", "folded", "losing", "map_of", "output_maps"]


def folded(
    model: Model, heads: Iterable[HeadId], means: Mapping[LayerId, Float[Tensor, "head v_dim"]]
) -> dict[LayerId, NewOutput]:
    """New biases that go on adding what these heads add on average: cut so, they are mean-ablated.

    Args:
        model: from `load`, before the cut.
        heads: those that will be cut.
        means: the mean output of every head (`mean_outputs`).

    Raises:
        ModelError: a layer without a linear map that reads its head outputs.
    """
    maps = output_maps(model)
    found: dict[LayerId, NewOutput] = {}
    for layer in losing(model, heads):
        output, at = map_of(maps, layer.runs[0], model), list(layer.gone)
        mean = torch.stack([means[run.id][at] for run in layer.runs]).mean(0)
        weight = output.weight[at].cpu().double()  # not every device has float64
        bias = torch.einsum("hv,hvd->d", mean.cpu().double(), weight)
        new = NewOutput(bias=bias.to(output.weight))
        found |= {run.id: new for run in layer.runs}  # one and the same where they share W_O
    return found


@dataclass(frozen=True, eq=False)
class Losing:
    """A layer that loses heads.

    Attributes:
        runs: of its module, one but where layers share it.
        gone: the places of the heads that go, among those it attends with.
    """

    runs: tuple[Run, ...]
    gone: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The places of the heads that stay."""
        return tuple(i for i in range(len(self.runs[0].heads)) if i not in self.gone)


def losing(model: Model, heads: Iterable[HeadId]) -> list[Losing]:
    """The layers that lose some of these heads, in order."""
    cut, found = set(heads), census(model)
    layers: dict[nn.Module, Losing] = {}
    for run in found.runs:
        gone = tuple(i for i, head in enumerate(run.heads) if run.id.head(head) in cut)
        if gone:
            layers.setdefault(run.layer.module, Losing(found.of(run.layer.module), gone))
    return list(layers.values())


def output_maps(model: Model) -> dict[LayerId, OutputMap]:
    """W_O of every run that has one, found by a pass on a short input."""
    modules = {run.layer.module for run in census(model).runs}
    found: dict[nn.Module, OutputMap] = {}
    with torch.no_grad(), model.open(), watching(model.module) as watch:
        taps = {module: Tap(observers=(_expecting(watch, module, found),)) for module in modules}
        with tapped(taps):
            model.run(example(model))
    return {run.id: found[m] for run in census(model).runs if (m := run.layer.module) in found}


def _expecting(
    watch: OutputWatch, module: nn.Module, found: dict[nn.Module, OutputMap]
) -> Observer:
    """Waits for the map that reads the module's head outputs."""

    def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
        watch.expect(z, partial(found.__setitem__, module))

    return observe


def map_of(maps: Mapping[LayerId, OutputMap], run: Run, model: Model) -> OutputMap:
    """W_O of a run.

    Raises:
        ModelError: it has none.
    """
    if run.id not in maps:
        raise ModelError(
            f"layer {run.id} of {model.name} has no linear map that reads its head outputs as they are, into whose "
            "bias their means could be folded; prune with fold='zero' and no refit"
        )
    return maps[run.id]
