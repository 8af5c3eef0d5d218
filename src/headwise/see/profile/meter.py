"""One batch on its way through the model: the meter of every layer, and what they add up to.

Everything that depends on the tokens alone (which key each probe names, which rows are real) is made once per pass;
what a layer gives is reduced to sums as soon as it is large, and together with other layers' while it is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwise.core.attention import Meter, Observer
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure
from headwise.core.units import measure_units
from headwise.hub.anatomy import Layer
from headwise.hub.kept import naming_of
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch
from headwise.hub.shards import local_part, num_kv_heads, shard_of
from headwise.names import LayerId, ModelError
from headwise.see.looking import refuse_split, run_id
from headwise.see.profile.asking import Asked, Settings, asked_of
from headwise.see.profile.placing import placed
from headwise.see.profile.reducing import LayerRun, cases_of_all_heads, of_all_heads, reduced
from headwise.see.profile.tally import LayerTally
from headwise.see.texts.batches import Batch

__all__ = ["Pass", "refuse_nan"]

_MOST_NUMBERS = 1 << 21
"""How many numbers of rows are kept before they are reduced to sums: 8 MiB in float32."""


@dataclass(eq=False)
class Pass:
    """Measures the attention layers of one pass.

    `maps` are the output maps known so far; the observers of the first pass find them, and how far recomputed head
    outputs are from the model's own (`verified` [head]).
    """

    settings: Settings
    batch: Batch
    maps: dict[LayerId, OutputMap]
    found: dict[LayerId, LayerTally | None] = field(default_factory=dict)
    verified: dict[LayerId, np.ndarray] = field(default_factory=dict)
    runs: list[LayerRun] = field(default_factory=list)
    asked: dict[tuple[str, int, int], Asked] = field(default_factory=dict)
    waiting: LayerRun | None = None

    def meter(self, layer: Layer) -> Meter:
        """Computes the layer's head outputs and keeps its statistics."""

        def meter(scores: Scores, v: Tensor) -> Tensor:
            z, run = self._measure(layer, scores, v)
            self.waiting = run
            return z

        return meter

    def observer(self, layer: Layer, watch: OutputWatch) -> Observer:
        """Compares recomputed head outputs with the model's own; looks for the layer's output map."""

        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            id, asked = self._begin(layer, scores)
            way = Wanted(functions=asked.wanted.functions)  # these decide by which code z is made
            off = measure(scores, v, way)[0].float()
            off = off.sub_(z.detach()).abs_().amax(-1)  # in place: z is large for a long text
            worst = off.masked_fill(~asked.real, 0.0).amax((0, 2))
            shard = shard_of(layer.module, scores.shape[1])
            worst = worst if shard is None else shard.gather(worst, 0)
            every = naming_of(layer.module, len(worst), num_kv_heads(layer.module, scores))
            self.verified[id] = placed(worst.cpu().double().numpy(), every, axis=0)

            def found(output: OutputMap) -> None:
                self.maps[id] = output

            watch.expect(z, found)

        return observe

    @contextmanager
    def results(self, model: nn.Module) -> Iterator[None]:
        """Measure the results of the heads where the model's output maps make them, within the `with`."""
        paths = {output.path for output in self.maps.values()}
        handles = [model.get_submodule(p).register_forward_hook(self._take) for p in sorted(paths)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _take(self, module: nn.Module, inputs: tuple[Any, ...], out: Tensor) -> None:
        """An output map has run on the head outputs that were measured last."""
        run, self.waiting = self.waiting, None
        output = None if run is None else self.maps.get(run.id)
        if run is None or output is None:
            return
        at, size = run.asked.sampled, self.batch.size
        row = torch.arange(size, device=at.device)[:, None]
        heads, dim, d_model = output.weight.shape
        given = local_part(inputs[0].detach(), -1, heads * dim)
        made = local_part(out.detach(), -1, d_model)
        z, added = (x.reshape(size, -1, x.shape[-1])[row, at] for x in (given, made))
        results = output.measure(z, added)
        run.results = results if run.shard is None else run.shard.gather(results, 3)

    def _measure(self, layer: Layer, scores: Scores, v: Tensor) -> tuple[Tensor, LayerRun]:
        """The head outputs, and the statistics of their rows."""
        id, asked = self._begin(layer, scores)
        z, statistics = measure(scores, v, asked.wanted)
        shard = shard_of(layer.module, scores.shape[1])
        if shard is not None:
            statistics = of_all_heads(statistics, shard)
        linked = None if asked.linked is None else measure_units(scores, asked.linked.cases)
        if linked is not None and shard is not None:
            linked = cases_of_all_heads(linked, shard)
        heads, kv_heads = statistics.entropy.shape[1], num_kv_heads(layer.module, scores)
        names = naming_of(layer.module, heads, kv_heads)
        run = LayerRun(id, names, statistics, asked, linked, shard)
        self._reduce(room=_MOST_NUMBERS - run.numbers)
        self.runs.append(run)
        return z, run

    def _begin(self, layer: Layer, scores: Scores) -> tuple[LayerId, Asked]:
        """The id of this run of a layer, and what is asked of it."""
        id = run_id(layer, self.found)
        refuse_split(id, scores, self.batch)
        self.found[id] = None
        key = (id.stream, *scores.shape[2:])
        if key not in self.asked:
            self.asked[key] = asked_of(self.settings, self.batch, *key, scores.q.device)
        return id, self.asked[key]

    def _reduce(self, room: int) -> None:
        """Reduce what is kept where it is more than there is room for."""
        if sum(run.numbers for run in self.runs) <= room:
            return
        forms: dict[tuple[object, ...], list[LayerRun]] = {}
        for run in self.runs:
            forms.setdefault(run.form, []).append(run)
        for runs in forms.values():
            self.found.update(reduced(runs, self.settings))
        self.runs = []

    @property
    def longest(self) -> int:
        """The most queries of a call, padding included."""
        return max((queries for _, queries, _ in self.asked), default=0)

    def tallies(self) -> dict[LayerId, LayerTally]:
        """What the pass adds to each layer's sums, the layers as they ran."""
        self._reduce(room=-1)
        return {id: tally for id, tally in self.found.items() if tally is not None}


def refuse_nan(model: Model, tallies: Mapping[LayerId, LayerTally], batch: Batch) -> None:
    """Raise where a layer's numbers are not finite, naming the first head and the texts; layers as they ran."""
    for id, tally in tallies.items():
        sums = tally["sum"].sum(0)
        share = sums[-1]  # of the layer's sum, so one head's NaN is in that of every head
        bad = ~np.isfinite(sums[:-1]).all(0) | ~np.isfinite(tally["verified"])
        for name in ("received", "pooled", "pooled_max"):
            if name in tally:
                bad |= ~np.isfinite(tally[name]).reshape(bad.size, -1).all(1)
        if not bad.any():
            bad = ~np.isfinite(share)
        if bad.any():
            texts = [side.text for side in batch.sources if side is not None][:1]
            where = f" on {texts[0][:40]!r}" if texts else ""
            others = batch.size - 1
            more = f" and {others} more text{'s' * (others > 1)}" if others and texts else ""
            raise ModelError(
                f"head {id.head(int(bad.argmax()))} of {model.name} gives NaN or infinity{where}{more}: its "
                "weights, or those of a layer before, are broken; nothing of these texts was counted"
            )
