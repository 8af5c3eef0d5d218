"""From the statistics of every row to sums over rows, for several layers of one form at once.

A layer's rows are a few thousand numbers, on which an operation costs more to start than to do: so layers are taken
together as long as they are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from headwise.core.streaming import Statistics
from headwise.core.units import CaseStatistics
from headwise.hub.kept import Naming
from headwise.hub.shards import Shard
from headwise.names import LayerId
from headwise.see.profile.asking import Asked, Settings
from headwise.see.profile.evidence import Evidence, evidence_of
from headwise.see.profile.placing import all_placed
from headwise.see.profile.tally import LayerTally, row_tally

__all__ = ["LayerRun", "cases_of_all_heads", "of_all_heads", "reduced"]


@dataclass(eq=False)
class LayerRun:
    """What one run of a layer gave: the statistics of its rows, and of its results on the sampled queries.

    `results` are the squared norms and the products with the sum [2, batch, sample, head]; None where no output
    map is known. `shard` says where a plan splits the heads over processes; what is kept here is of all heads.
    """

    id: LayerId
    names: Naming
    statistics: Statistics
    asked: Asked
    linked: CaseStatistics | None = None
    shard: Shard | None = None
    results: Tensor | None = None

    @property
    def numbers(self) -> int:
        """How many numbers it holds in memory."""
        s = self.statistics
        kept = (s.entropy, s.distance, s.largest, s.mass, s.hits, s.top_keys, s.top_weights)
        maps = (s.received, s.pooled, s.pooled_max, *s.own.values())
        cases = () if self.linked is None else (self.linked.mass, self.linked.hits)
        return sum(x.numel() for x in (*kept, *maps, *cases) if x is not None)

    @property
    def form(self) -> tuple[object, ...]:
        """What layers must share to be taken together."""
        s = self.statistics
        seen = None if s.seen_by is None else s.seen_by.shape
        named = None if s.named_seen is None else s.named_seen.shape
        cases = None if self.linked is None else (self.linked.seen.shape, self.linked.visible.shape)
        shapes = (s.entropy.shape, s.visible.shape, seen, named, cases)
        return (id(self.asked), *shapes, self.results is None)


def of_all_heads(statistics: Statistics, shard: Shard) -> Statistics:
    """The statistics of the heads of all processes, put together; every process must call it."""
    s = statistics

    def gather(x: Tensor | None) -> Tensor | None:
        """What is the same for all heads stays as it is."""
        if x is None or x.shape[1] != s.entropy.shape[1]:
            return x
        return shard.gather(x.byte()).bool() if x.dtype is torch.bool else shard.gather(x)

    found = {f.name: gather(getattr(s, f.name)) for f in fields(s) if f.name not in ("own", "path")}
    own = {name: shard.gather(x) for name, x in s.own.items()}
    return replace(s, **found, own=own)  # type: ignore[arg-type]  # None only where it was


def cases_of_all_heads(cases: CaseStatistics, shard: Shard) -> CaseStatistics:
    """The same for the cases of units."""
    mass = shard.gather(cases.mass)
    hits = shard.gather(cases.hits.byte()).bool()
    per_head = cases.visible.shape[1] > 1
    seen = shard.gather(cases.seen.byte(), 2).bool() if per_head else cases.seen
    return CaseStatistics(
        mass, hits, seen, shard.gather(cases.visible) if per_head else cases.visible
    )


def reduced(runs: Sequence[LayerRun], settings: Settings) -> dict[LayerId, LayerTally]:
    """What these runs, of one form, add to the sums of their layers."""
    asked, found = runs[0].asked, [run.statistics for run in runs]
    evidence = evidence_of(found, [run.linked for run in runs], asked, settings)
    sums, counts = _rows(found, asked, settings, evidence)
    of_results, number = _results([run.results for run in runs], asked, sums[0])
    rows = row_tally(
        _array([*sums, *of_results]), _array([*counts, *number]), asked.halves, asked.cuts
    )
    maps = {name: _numpy(value) for name, value in _maps(found, asked, settings).items()}
    maps |= _of_halves(evidence, asked.halves)
    tallies: dict[LayerId, LayerTally] = {}
    for i, run in enumerate(runs):
        alone = {p: run.statistics.path == p for p in ("kernel", "portable")}
        tally = {
            **rows[i],
            **{name: array[i] for name, array in maps.items()},
            **{name: np.array(value, dtype=float) for name, value in alone.items()},
            "verified": np.zeros(len(run.names.heads)),
            "kv_group": np.array(run.names.kv, dtype=float),
        }
        tallies[run.id] = all_placed(tally, run.names)
    return tallies


def _of_halves(evidence: Evidence, halves: np.ndarray) -> dict[str, np.ndarray]:
    """What is kept of the evidence beside sums that have intervals, in each half of the texts."""
    found = {name: _numpy(getattr(evidence, name)) for name in ("uniform", "unseen")}
    summed = {
        name: np.stack([x[:, :, halves == half].sum(2) for half in (0, 1)], 1)
        for name, x in found.items()
    }
    return {**summed, "offsets": evidence.offsets}


def _rows(
    found: Sequence[Statistics], asked: Asked, settings: Settings, evidence: Evidence
) -> tuple[list[Tensor], list[Tensor]]:
    """Sums over the rows that count and their number, for each statistic [layer, batch, head]."""
    visible = torch.stack([s.visible for s in found])
    entropy = torch.stack([s.entropy for s in found])
    see = (visible > 0) & asked.real
    even = see & (visible > 1)
    most = visible.clamp_min(2).log()
    rows = [entropy, (entropy / most).masked_fill(~even, 0.0)]
    distance = torch.stack([s.distance for s in found])
    rows.append(torch.zeros_like(distance) if asked.apart else distance)
    rows.append(torch.stack([s.largest for s in found]))
    if settings.top:
        rows.append(_joined([s.top_weights for s in found]).sum(-1))
    seeing = see.sum(-1)
    near = torch.zeros_like(seeing) if asked.apart else seeing
    counts = [seeing, even.sum(-1), near, *[seeing] * (len(rows) - 3)]
    sums = [_total(row.masked_fill(~see, 0.0)) for row in rows]
    for per_case in (evidence.mass, evidence.hits):
        sums += per_case.unbind(1)
        counts += evidence.count.unbind(1)
    for name in settings.functions:
        values = torch.stack([s.own[name] for s in found])
        has = see & ~values.isnan()
        sums.append(_total(values.masked_fill(~has, 0.0)))
        counts.append(has.sum(-1))
    return sums, [count.expand(sums[0].shape) for count in counts]


def _results(
    results: Sequence[Tensor | None], asked: Asked, like: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Sums of the norm of each head's result and of its share, and their numbers; no case without an output map."""
    if results[0] is None:
        none = [torch.zeros_like(like)] * 2
        return none, none
    squares, products = _joined(results).transpose(-1, -2).unbind(1)
    whole = products.sum(2, keepdim=True)
    some = asked.counted & ~(whole <= 0)
    norms = squares.sqrt().masked_fill(~asked.counted, 0.0)
    shares = (products / whole).masked_fill(~some, 0.0)
    counts = [asked.counted.sum(-1), some.sum(-1)]
    return [_total(norms), _total(shares)], [count.expand(like.shape) for count in counts]


def _maps(found: Sequence[Statistics], asked: Asked, settings: Settings) -> dict[str, Tensor]:
    """What each position receives, and the pooled maps, added up over texts."""
    maps: dict[str, Tensor] = {}
    if settings.positions:
        first = slice(0, settings.positions)
        received = _joined([None if s.received is None else s.received[..., first] for s in found])
        seen = _joined([None if s.seen_by is None else s.seen_by[..., first] for s in found])
        room = (0, settings.positions - received.shape[-1])
        summed = {"received": received.sum(1), "seen_by": seen.expand(received.shape).sum(1)}
        maps |= {name: torch.nn.functional.pad(x, room) for name, x in summed.items()}
    if settings.pool:
        maps["pooled"] = _joined([s.pooled for s in found]).sum(1)
        maps["pooled_max"] = _joined([s.pooled_max for s in found]).amax(1)
        maps["pooled_texts"] = asked.cells.expand(len(found), -1)
    return maps


def _joined(values: Sequence[Tensor | None]) -> Tensor:
    """One under the other; asked for, so that none is missing."""
    return torch.stack([value for value in values if value is not None])


def _total(x: Tensor) -> Tensor:
    """The sum over rows, in float64 where the device has it."""
    dtype = torch.float32 if x.device.type == "mps" else torch.float64
    return x.sum(-1, dtype=dtype)


def _array(parts: Sequence[Tensor]) -> np.ndarray:
    """[layer, statistic, batch, head]."""
    return _numpy(torch.stack(list(parts), 1))


def _numpy(x: Tensor) -> np.ndarray:
    found: np.ndarray = x.cpu().double().numpy()
    return found
