"""What each head does most on one text.

Each rule names one key for each query (the token before, the token itself, the first, the last
earlier one of the same kind); a head's mass on a rule is its mean attention to that key, over the
queries where no other rule names the same key. A head does what it gives the most mass to, when
that is at least a third; else it is "spread" when its rows are near uniform over what they may
see, or "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core import masks
from headwise.core.scores import Scores
from headwise.core.streaming import Statistics, Wanted, measure_rows
from headwise.names import HeadId
from headwise.see.probes.tokens import last_same
from headwise.see.record import LayerRecord, Record, Side

RULES = ("previous", "self", "first", "same token")
DOES = (*RULES, "spread", "other")

ENOUGH = 1 / 3
"""Least mean mass that makes a rule what a head does."""

EVEN = 0.75
"""Least entropy, as a share of the most possible, that makes a head "spread"."""

FAR = 3
"""Least distance in tokens of a link that tells something (1 in a text too short for it)."""


@dataclass(frozen=True)
class Cell:
    """One cell of a pattern: the query token at `query` looks at the key token at `key` with `weight`."""

    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class HeadSummary:
    """One head on one text.

    `does` is one of DOES, `mass` the mean attention that backs it (for "spread" the mean entropy as a share
    of the most possible; for "other" what no rule holds), `masses` the mean attention under every rule, `top`
    its strongest links: cells at least FAR tokens apart whose key is a word and not the first token. `means` are
    means over the rows that may see something: entropy (nats), distance (tokens; not between two texts), largest
    (weight) and to_first (attention to the first token).
    """

    id: HeadId
    kv_group: int
    does: str
    mass: float
    masses: dict[str, float]
    top: tuple[Cell, ...]
    means: Mapping[str, float] = field(default_factory=dict)


def summarise(
    record: Record, *, top: int = 3, progress: Callable[[int, int], None] | None = None
) -> list[HeadSummary]:
    """What each head of the record does most, in the order of the heads.

    Args:
        record: of one text.
        top: how many of the strongest cells to keep for each head.
        progress: called as progress(layers done, layers in all).
    """
    summaries: list[HeadSummary] = []
    for done, layer in enumerate(record.layers.values(), 1):
        summaries.extend(_layer_summaries(layer, top))
        if progress is not None:
            progress(done, len(record.layers))
    return summaries


def targets(layer: LayerRecord) -> dict[str, Tensor]:
    """For each rule the key each query names, [query] int64, -1 where it names none.

    Between two different texts (cross-attention) only "first" means anything.
    """
    at = torch.arange(len(layer.queries.tokens))
    same = torch.tensor(last_same(layer.queries), dtype=torch.long)
    found = {"previous": at - 1, "self": at, "same token": same}
    if not layer.own_text:
        found = {rule: torch.full_like(at, -1) for rule in found}
    return {**found, "first": torch.zeros_like(at)}  # of the first token, too


def _layer_summaries(layer: LayerRecord, top: int) -> Iterator[HeadSummary]:
    scores = _from_the_start(layer.scores)
    named = _apart(torch.stack([targets(layer)[rule] for rule in RULES])).to(scores.q.device)
    wanted = Wanted(
        probes=torch.cat([named, torch.zeros_like(named[:1])])[
            None
        ],  # the first token, of all rows
        top=max(1, top),
        eligible=telling_keys(layer.keys)[None].to(scores.q.device),
        apart=FAR if scores.shape[3] > FAR + 1 else 1,
    )
    found = measure_rows(scores, wanted)
    assert found.mass is not None
    shares = found.mass[0, :, :-1].sum(-1) / (named >= 0).sum(-1).clamp_min(1)
    evenness = _evenness(found)
    strongest, means = _strongest(found, top), _means(found, layer.own_text)
    for i, (head, group) in enumerate(zip(layer.naming.heads, layer.naming.kv, strict=True)):
        masses = dict(zip(RULES, shares[i].tolist(), strict=True))
        does, mass = _verdict(masses, float(evenness[i]))
        yield HeadSummary(layer.id.head(head), group, does, mass, masses, strongest[i], means[i])


def _from_the_start(scores: Scores) -> Scores:
    """The same scores with the first query at the first key: a text and the one it looks at both start at 0."""
    if scores.query_offset == 0:
        return scores
    mask = scores.mask
    if mask is not None:
        dense = mask.dense(*scores.shape[2:], scores.query_offset, scores.q.device)
        mask = masks.tensor(dense)
    return replace(scores, mask=mask, query_offset=0)


def _apart(keys: Int[Tensor, "rule query"]) -> Int[Tensor, "rule query"]:
    """The key each rule names for each query, -1 where another rule names the same."""
    shared = (keys[:, None] == keys[None]).sum(1) > 1
    return keys.where(~shared, -1)


def _evenness(found: Statistics) -> Float[Tensor, " head"]:
    """Mean entropy as a share of the log of what a row may see, over rows that see two or more."""
    visible = found.visible[0].amax(0)
    some = visible >= 2
    share = found.entropy[0] / visible.clamp_min(2).log()
    return (share * some).sum(-1) / some.sum().clamp_min(1)


def _means(found: Statistics, own_text: bool) -> list[dict[str, float]]:
    """Of each head, over the rows that may see something; no distance between two texts."""
    assert found.mass is not None
    sees = (found.visible[0] > 0).expand(found.entropy.shape[1:])
    rows = {"entropy": found.entropy[0], "distance": found.distance[0], "largest": found.largest[0]}
    rows["to_first"] = found.mass[0, :, -1]
    if not own_text:
        del rows["distance"]
    count = sees.sum(-1).clamp_min(1)
    means = torch.stack([(x * sees).sum(-1) / count for x in rows.values()], -1)
    return [dict(zip(rows, head, strict=True)) for head in means.tolist()]


def _strongest(found: Statistics, top: int) -> list[tuple[Cell, ...]]:
    """The strongest cells of each head: they are among the strongest of their rows."""
    assert found.top_keys is not None
    assert found.top_weights is not None
    per_row = found.top_keys.shape[-1]
    every = found.top_weights[0].flatten(1)
    weights, at = every.topk(min(top, every.shape[1]), dim=1)
    keys = found.top_keys[0].flatten(1).gather(1, at)
    return [
        tuple(Cell(int(i) // per_row, int(key), weight) for i, key, weight in head if weight > 0)
        for head in torch.stack([at.double(), keys.double(), weights.double()], -1).tolist()
    ]


def _verdict(masses: dict[str, float], evenness: float) -> tuple[str, float]:
    rule = max(masses, key=lambda name: masses[name])
    if masses[rule] >= ENOUGH:
        return rule, masses[rule]
    if evenness >= EVEN:
        return "spread", evenness
    return "other", max(0.0, 1.0 - sum(masses.values()))


def telling_keys(side: Side) -> Bool[Tensor, " key"]:
    """True for tokens of letters or digits and for positions, not for special tokens, punctuation and the first."""
    letters = [
        token.id < 0 or (not token.special and any(c.isalnum() for c in token.text))
        for token in side.tokens
    ]
    if letters:
        letters[0] = False
    return torch.tensor(letters, dtype=torch.bool)
