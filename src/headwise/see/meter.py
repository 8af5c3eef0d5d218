"""One batch on its way through the model: what each layer's meter asks of the patterns, and adds up of them.

The work per layer is a handful of small tensor operations over the whole batch; everything that depends on the
tokens alone (which key each probe names, which rows are real) is made once per pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.attention import Meter, Observer
from headwise.core.scores import Scores
from headwise.core.streaming import PatternFunction, Statistics, Wanted, measure
from headwise.hub.anatomy import Layer
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch
from headwise.names import LayerId, ModelError, TextError
from headwise.see.batches import Batch
from headwise.see.looking import refuse_split, run_id
from headwise.see.probes import Probe
from headwise.see.tally import LayerTally, row_tally

__all__ = ["SAMPLES", "Pass", "Settings", "refuse_nan", "samples"]

SAMPLES = (
    "result_norm and result_share are taken on a sixteenth of the queries of each text, at least 8 (or all) and at "
    "most 32: the middles of as many equal stretches"
)


@dataclass(frozen=True, eq=False)
class Settings:
    """What is asked of every head."""

    probes: tuple[Probe, ...]
    functions: Mapping[str, PatternFunction]
    top: int
    pool: int
    positions: int

    @cached_property
    def statistics(self) -> tuple[str, ...]:
        """The names of all statistics that are means over rows, in the order they are kept in."""
        names = [probe.name for probe in self.probes]
        hits = [f"{name}_hits" for name in names]
        top = ["top"] if self.top else []
        rows = ["entropy", "evenness", "distance", "largest", *top]
        return (*rows, *names, *hits, *self.functions, "result_norm", "result_share")


def samples(length: int) -> Int[Tensor, " sample"]:
    """The queries of a text on which results are measured (`SAMPLES`)."""
    count = min(length, max(8, min(32, length // 16)))
    return (torch.arange(count) * 2 + 1) * length // (2 * max(count, 1))


@dataclass(frozen=True, eq=False)
class Asked:
    """What a pass asks of the layers of one stream."""

    wanted: Wanted
    real: Bool[Tensor, "batch 1 query"]
    named: Int[Tensor, "probe batch 1"]
    sampled: Int[Tensor, "batch sample"]
    counted: Bool[Tensor, "batch 1 sample"]
    cells: Float[Tensor, " query_cell"]


@dataclass(eq=False)
class Pass:
    """Measures the attention layers of one pass.

    `maps` are the output maps known so far; the observers of the first pass find them.
    """

    settings: Settings
    batch: Batch
    maps: dict[LayerId, OutputMap]
    found: dict[LayerId, dict[str, Tensor]] = field(default_factory=dict)
    asked: dict[tuple[str, int, int], Asked] = field(default_factory=dict)

    def meter(self, layer: Layer) -> Meter:
        """Computes the layer's head outputs and adds up its statistics."""

        def meter(scores: Scores, v: Tensor) -> Tensor:
            id = run_id(layer, self.found)
            asked = self._asked(id, scores)
            z, part = self._measure(scores, v, asked)
            if id in self.maps:
                part["results"], part["result_counts"] = _results(z, self.maps[id], asked)
            self.found[id] = part
            return z

        return meter

    def observer(self, layer: Layer, watch: OutputWatch) -> Observer:
        """The same beside the model's own attention, compared with it; looks for the layer's output map."""

        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            id = run_id(layer, self.found)
            asked = self._asked(id, scores)
            ours, part = self._measure(scores, v, asked)
            off = (ours.float() - z.detach().float()).abs().amax(-1)
            part["verified"] = off.masked_fill(~asked.real, 0.0).amax()
            self.found[id] = part

            def found(output: OutputMap) -> None:
                self.maps[id] = output
                part["results"], part["result_counts"] = _results(z, output, asked)

            watch.expect(z, found)

        return observe

    @property
    def longest(self) -> int:
        """The most queries of a call so far, padding included."""
        return max((queries for _, queries, _ in self.asked), default=0)

    def tallies(self) -> dict[LayerId, LayerTally]:
        """What the pass adds to each layer's sums."""
        return {id: self._tally(part) for id, part in self.found.items()}

    def _measure(self, scores: Scores, v: Tensor, asked: Asked) -> tuple[Tensor, dict[str, Tensor]]:
        """The head outputs, and the sums over rows for each text and head."""
        batch, heads = scores.shape[:2]
        z, found = measure(scores, v, asked.wanted)
        sums, counts = self._rows(found, asked)
        part = {
            "sums": torch.stack(sums),
            "counts": torch.stack([count.expand(batch, heads) for count in counts]),
            "kv_heads": torch.tensor(scores.k.shape[1]),
        }
        if found.received is not None and found.seen_by is not None:
            first = slice(0, self.settings.positions)
            part["received"] = found.received[..., first].sum(0)
            part["seen_by"] = found.seen_by[..., first].expand(batch, heads, -1).sum(0)
        if found.pooled is not None and found.pooled_max is not None:
            part["pooled"] = found.pooled.sum(0)
            part["pooled_max"] = found.pooled_max.amax(0)
            part["pooled_texts"] = asked.cells
        return z, part

    def _rows(self, found: Statistics, asked: Asked) -> tuple[list[Tensor], list[Tensor]]:
        """Sums [batch, head] over the rows that count, and their number, which axes of size 1 may share."""
        see = (found.visible > 0) & asked.real
        even = see & (found.visible > 1)
        most = found.visible.clamp_min(2).log()
        rows = [found.entropy, (found.entropy / most).masked_fill(~even, 0.0)]
        rows += [found.distance, found.largest]
        if found.top_weights is not None:
            rows.append(found.top_weights.sum(-1))
        seeing = see.sum(-1)
        counts = [seeing, even.sum(-1), *[seeing] * (len(rows) - 2)]
        sums = list(torch.stack(rows).masked_fill(~see, 0.0).sum(-1, dtype=torch.float64))
        if found.mass is not None and found.hits is not None:
            sums += [*found.mass.sum(-1, dtype=torch.float64).unbind(2)]
            sums += [*found.hits.sum(-1).double().unbind(2)]
            counts += [*asked.named, *asked.named]
        for name in self.settings.functions:
            has = see & ~found.own[name].isnan()
            sums.append(found.own[name].masked_fill(~has, 0.0).sum(-1, dtype=torch.float64))
            counts.append(has.sum(-1))
        return sums, counts

    def _asked(self, id: LayerId, scores: Scores) -> Asked:
        """What is asked of a layer, made once where streams and lengths are the same."""
        refuse_split(id, scores, self.batch)
        key = (id.stream, *scores.shape[2:])
        known = self.asked.get(key)
        if known is None:
            known = self.asked[key] = self._ask(id.stream, *scores.shape[2:], scores.q.device)
        return known

    def _ask(self, stream: str, queries: int, keys: int, device: torch.device) -> Asked:
        size, probes = self.batch.size, self.settings.probes
        named = torch.full((size, len(probes), queries), -1)
        lengths = torch.empty(2, size, dtype=torch.long)
        taken = torch.zeros(size, min(queries, 32), dtype=torch.long)
        counted = torch.zeros(taken.shape, dtype=torch.bool)
        for i in range(size):
            looking, q_keep = self.batch.side(stream, i, queries, looks=True)
            looked_at, k_keep = self.batch.side(stream, i, keys, looks=False)
            lengths[0, i], lengths[1, i] = n, _ = _length(q_keep), _length(k_keep)
            own_text = stream != "cross" and looking.tokens == looked_at.tokens
            for p, probe in enumerate(probes):
                named[i, p, :n] = probe.targets(looking, looked_at, own_text)
            at = samples(n)
            taken[i, : len(at)], counted[i, : len(at)] = at, True
        wanted = Wanted(
            probes=named.to(device) if probes else None,
            top=self.settings.top,
            pool=self.settings.pool,
            received=self.settings.positions > 0,
            query_lengths=lengths[0].to(device),
            key_lengths=lengths[1].to(device),
            functions=self.settings.functions,
        )
        real = torch.arange(queries) < lengths[0][:, None]
        most = int(counted.sum(1).max())
        return Asked(
            wanted,
            real[:, None].to(device),
            (named >= 0).sum(2).T[..., None].to(device),
            taken[:, :most].to(device),
            counted[:, None, :most].to(device),
            _cells(lengths[0], self.settings.pool),
        )

    def _tally(self, part: dict[str, Tensor]) -> LayerTally:
        """One layer's sums as arrays; a layer without an output map has no case for its results."""
        arrays = {name: value.cpu().double().numpy() for name, value in part.items()}
        sums, counts = arrays.pop("sums"), arrays.pop("counts")
        none = np.zeros((2, *sums.shape[1:]))
        sums = np.concatenate([sums, arrays.pop("results", none)])
        counts = np.concatenate([counts, arrays.pop("result_counts", none)])
        for name in ("received", "seen_by"):
            if name in arrays:
                missing = self.settings.positions - arrays[name].shape[1]
                arrays[name] = np.pad(arrays[name], ((0, 0), (0, missing)))
        arrays.setdefault("verified", np.zeros(()))
        return {**row_tally(sums, counts), **arrays}


def _length(keep: Tensor) -> int:
    """How many tokens are real, which must be the first ones."""
    length = int(keep.sum())
    if not bool(keep[:length].all()):
        raise TextError(
            "a row of the batch has padding before its tokens; pad on the right, or leave out position_ids "
            "(and decoder_attention_mask) and the padding is moved there"
        )
    return length


def _cells(lengths: Tensor, pool: int) -> Tensor:
    """How many texts have a query in each cell of the pooled map."""
    cells = torch.zeros(pool)
    for n in lengths.tolist() if pool else []:
        cells[(torch.arange(n) * pool // max(n, 1)).unique()] += 1
    return cells


def _results(z: Tensor, output: OutputMap, asked: Asked) -> tuple[Tensor, Tensor]:
    """Sums [2, batch, head] of the norm of each head's result and of its share, and their numbers."""
    batch, heads, _, dim = z.shape
    at = asked.sampled[:, None, :, None].expand(-1, heads, -1, dim)
    taken = z.detach().gather(2, at)
    products = output.products(taken)
    whole = products.sum(1, keepdim=True)
    counted = torch.stack([asked.counted, asked.counted & ~(whole <= 0)])
    values = torch.stack([output.squared_norms(taken).sqrt(), products / whole])
    sums = values.masked_fill(~counted, 0.0).sum(-1, dtype=torch.float64)
    return sums, counted.sum(-1).expand(2, batch, heads)


def refuse_nan(model: Model, tallies: Mapping[LayerId, LayerTally], batch: Batch) -> None:
    """Raise where a layer's numbers are not finite, naming the first head and the texts; layers as they ran."""
    for id, tally in tallies.items():
        share = tally["sum"][-1]  # of the layer's sum, so one head's NaN is in that of every head
        bad = np.asarray(~np.isfinite(tally["sum"][:-1]).all(0))
        for name in ("received", "pooled", "pooled_max"):
            if name in tally:
                bad |= ~np.isfinite(tally[name]).reshape(len(bad), -1).all(1)
        if not bad.any():
            bad = ~np.isfinite(share) | ~np.isfinite(tally["verified"])
        if bad.any():
            texts = [side.text for side in batch.sources if side is not None][:1]
            where = f" on {texts[0][:40]!r}" if texts else ""
            more = f" and {batch.size - 1} more texts" if batch.size > 1 and texts else ""
            raise ModelError(
                f"head {id.head(int(bad.argmax()))} of {model.name} gives NaN or infinity{where}{more}: its "
                "weights, or those of a layer before, are broken; nothing of these texts was counted"
            )
