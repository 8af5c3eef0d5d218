"""What a profile asks of the heads, and what that means for the texts of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.streaming import PatternFunction, Wanted
from headwise.names import TextError
from headwise.see.probes import Probe
from headwise.see.profile.halves import halves_of
from headwise.see.profile.linking import Linked, Linking
from headwise.see.texts.batches import Batch, Cut

__all__ = ["SAMPLES", "Asked", "Settings", "asked_of", "samples"]

SAMPLES = (
    "result_norm and result_share are taken on one in 32 queries of each text, at least 4 (or all) and at most 32: "
    "the middles of as many equal stretches"
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
    def of_tokens(self) -> tuple[int, ...]:
        """The numbers of the probes of tokens."""
        return tuple(p for p, probe in enumerate(self.probes) if probe.units is None)

    @cached_property
    def of_units(self) -> tuple[int, ...]:
        """The numbers of the probes of units."""
        return tuple(p for p, probe in enumerate(self.probes) if probe.units is not None)

    @cached_property
    def statistics(self) -> tuple[str, ...]:
        """The names of all statistics that are means over rows, in the order they are kept in."""
        names = [probe.name for probe in self.probes]
        hits = [f"{name}_hits" for name in names]
        top = ["top"] if self.top else []
        rows = ["entropy", "evenness", "distance", "largest", *top]
        return (*rows, *names, *hits, *self.functions, "result_norm", "result_share")


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of the layers of one stream in one batch.

    Attributes:
        wanted: of `measure`.
        real: which queries are tokens and no padding.
        halves: in which half of the texts each row is.
        linked: what the probes of units ask; None where that is nothing.
        lengths: how many keys of each text are real.
        sampled: the queries on which results are measured, as many for each text as for the one with most.
        counted: which of these count.
        cells: how many texts have a query in each cell of the pooled map.
        apart: whether tokens look at another text, between which there is no distance.
        cuts: which rows are pieces of which texts (`Batch.cuts`).
    """

    wanted: Wanted
    real: Bool[Tensor, "batch 1 query"]
    halves: Int[np.ndarray, " row"]
    linked: Linked | None
    lengths: Int[Tensor, " batch"]
    sampled: Int[Tensor, "batch sample"]
    counted: Bool[Tensor, "batch 1 sample"]
    cells: Float[Tensor, " query_cell"]
    apart: bool
    cuts: Sequence[Cut | None] | None = None


def samples(length: int) -> Int[Tensor, " sample"]:
    """The queries of a text on which results are measured (`SAMPLES`)."""
    count = min(length, max(4, min(32, length // 32)))
    return (torch.arange(count) * 2 + 1) * length // (2 * max(count, 1))


def asked_of(
    settings: Settings, batch: Batch, stream: str, queries: int, keys: int, device: torch.device
) -> Asked:
    """What these settings ask of a stream whose calls have so many queries and keys, padding included.

    Raises:
        TextError: padding before a text's tokens.
        ConfigError: a probe that names no key of the text.
    """
    size, of_tokens = batch.size, settings.of_tokens
    named = torch.full((size, len(of_tokens), queries), -1)
    linking = Linking([(p, settings.probes[p]) for p in settings.of_units], keys)
    lengths = torch.empty(2, size, dtype=torch.long)
    for i in range(size):
        looking, q_keep = batch.side(stream, i, queries, looks=True)
        looked_at, k_keep = batch.side(stream, i, keys, looks=False)
        lengths[0, i], lengths[1, i] = n, _ = _length(q_keep), _length(k_keep)
        own_text = stream != "cross" and looking.tokens == looked_at.tokens
        for at, p in enumerate(of_tokens):
            named[i, at, :n] = settings.probes[p].targets(looking, looked_at, own_text)
        linking.add(i, looking, looked_at, own_text)
    linked = linking.linked()
    wanted = Wanted(
        probes=named.to(device) if of_tokens else None,
        top=settings.top,
        pool=settings.pool,
        received=settings.positions > 0,
        query_lengths=lengths[0].to(device),
        key_lengths=lengths[1].to(device),
        functions=settings.functions,
    )
    rows = [samples(n) for n in lengths[0].tolist()]
    sampled = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    counts = torch.tensor([len(row) for row in rows])[:, None]
    return Asked(
        wanted,
        (torch.arange(queries) < lengths[0][:, None])[:, None].to(device),
        halves_of(batch),
        None if linked is None else linked.to(device),
        lengths[1].to(device),
        sampled.to(device),
        (torch.arange(sampled.shape[1]) < counts)[:, None].to(device),
        _cells(lengths[0], settings.pool).to(device),
        stream == "cross",
        batch.cuts,
    )


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
