"""The passes that are counted: forward and backward, forward alone, and one that fills a cache."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from headwise.check.counting.attributing import Attributed, Spot
from headwise.check.counting.feeding import Sizes
from headwise.check.counting.operations import tensors_in
from headwise.check.counting.placing import Places
from headwise.check.counting.shadows import Subject
from headwise.check.counting.stages import Stages, stages_of
from headwise.check.counting.watching import Operation, Watch
from headwise.check.running.filling import cache_tensors, fill_of
from headwise.names import LayerId
from headwise.nn import EncoderDecoder

__all__ = ["Cost", "Counted", "counted"]


@dataclass(eq=False)
class Cost:
    """What a part costs: numbers (weights: those of matrices), FLOPs, and bytes that autograd keeps."""

    parameters: int = 0
    weights: int = 0
    forward: int = 0
    backward: int = 0
    activation: int = 0


@dataclass(eq=False)
class Counted:
    """What was counted.

    Attributes:
        costs: by place and part.
        order: the layers, in the order in which they ran.
        cache: bytes of keys and values by layer; None where the model has no cache.
        peak: the most bytes that a plain forward pass held at a time, beside weights and inputs.
        stages: of each run of an attention layer and of each block's network, the shapes.
        tied: paths of maps whose weight is a table of embeddings, and its name.
        how: the passes were run.
    """

    costs: dict[Spot, Cost]
    order: list[LayerId]
    cache: dict[LayerId | None, int] | None
    peak: int
    stages: list[Stages]
    tied: list[tuple[str, str]]
    how: str


def counted(subject: Subject, sizes: Sizes) -> Counted:
    """Run a model three times, and sum up what that costs."""
    costs: dict[Spot, Cost] = defaultdict(Cost)
    places, watch = _training(subject)
    whose = Attributed(subject.model.module, places, watch)
    for spot, size, matrix in whose.parameters():
        costs[spot].parameters += size
        costs[spot].weights += size if matrix else 0
    for spot, forward, backward in whose.flops():
        costs[spot].forward += forward
        costs[spot].backward += backward
    for spot, kept in whose.saved():
        costs[spot].activation += kept
    return Counted(
        dict(costs),
        _order(places),
        _cached(subject, sizes),
        _peak(subject),
        stages_of(places, watch, whose, sizes),
        whose.shared(),
        subject.how,
    )


def _training(subject: Subject) -> tuple[Places, Watch]:
    """Forward, and the gradients of all weights from all that comes out; dropout is left out."""
    module = subject.model.module
    places = Places(subject.model)
    watch = Watch(module, places, subject.fake)
    weights = [p for p in module.parameters() if p.requires_grad]
    with torch.enable_grad(), watch.watching():
        out = subject.model.outputs(subject.inputs)
        made = [x for x in tensors_in(out) if x.requires_grad]
        watch.kept = dict(watch.saved)  # what is freed from here on was kept
        if made and weights:
            ones = [torch.ones_like(x) for x in made]
            torch.autograd.grad(made, weights, ones, allow_unused=True)
    return places, watch


def _peak(subject: Subject) -> int:
    watch = Watch(subject.model.module, Places(subject.model), subject.fake)
    with torch.no_grad(), watch.watching():
        subject.model.outputs(subject.inputs)
    return watch.peak


def _cached(subject: Subject, sizes: Sizes) -> dict[LayerId | None, int] | None:
    """The bytes of the cache that all positions fill, by the layer whose maps made them."""
    model = subject.model
    room = (sizes.target or 1) - 1 if isinstance(model.module, EncoderDecoder) else 0
    with torch.no_grad():
        with Watch(model.module, Places(model), subject.fake).watching():
            fill = fill_of(model, subject.inputs, sizes.length or 1, room)
        if fill is None:
            return None
        watch = Watch(model.module, Places(model), subject.fake)
        with watch.watching():
            held = fill()
        found: dict[LayerId | None, int] = defaultdict(int)
        for x in cache_tensors(held.cache):
            maps = [m for m in watch.marks_of(x) if isinstance(m, Operation)]
            runs = [m.attention or m.block for m in maps]
            ids = {run.id for run in runs if run is not None}
            found[min(ids) if ids else None] += x.numel() * x.element_size()
    return dict(found)


def _order(places: Places) -> list[LayerId]:
    """The layers that ran: each block's own, then the cross-attention within it."""
    found: dict[LayerId, None] = {}
    for run in (*places.block_runs, *places.runs):
        found[run.id] = None
    streams = list(dict.fromkeys(id.stream for id in found))
    return sorted(found, key=lambda id: (streams.index(id.stream), id.layer))
