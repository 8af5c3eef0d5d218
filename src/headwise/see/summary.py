"""What each head does most on one text.

Each rule names one key for each query (the token before, the token itself, the first, the last
earlier one of the same kind); a head's mass on a rule is its mean attention to that key, over the
queries where no other rule names the same key. A head does what it gives the most mass to, when
that is at least a third; else it is "spread" when its rows are near uniform over what they may
see, or "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.names import HeadId
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
    its strongest links: cells at least FAR tokens apart whose key is a word and not the first token.
    """

    id: HeadId
    kv_group: int
    does: str
    mass: float
    masses: dict[str, float]
    top: tuple[Cell, ...]


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
    tokens = layer.queries.tokens
    count = len(tokens)
    at = torch.arange(count)
    none = torch.full((count,), -1)
    first = torch.zeros(count, dtype=torch.long)
    if not layer.own_text:
        return {"previous": none, "self": none, "first": first, "same token": none}
    seen: dict[int, int] = {}
    same = none.clone()
    for i, token in enumerate(tokens):
        if token.id >= 0:  # positions that are no tokens have no other of their kind
            same[i] = seen.get(token.id, -1)
            seen[token.id] = i
    return {"previous": at - 1, "self": at, "first": first, "same token": same}


def _layer_summaries(layer: LayerRecord, top: int) -> Iterator[HeadSummary]:
    scores = layer.scores
    device = scores.q.device
    named = {rule: key.to(device) for rule, key in targets(layer).items()}
    telling_keys = _telling_keys(layer.keys).to(device)
    sums = torch.zeros(len(RULES) + 1, layer.num_heads, device=device)
    counts = torch.zeros(len(RULES) + 1, device=device)
    best: list[Tensor] = []
    far = FAR if scores.shape[3] > FAR + 1 else 1
    with torch.no_grad():
        for start, stop in scores.blocks():
            keys = scores.reach(start, stop)
            pattern = scores.rows(start, stop, keys=keys)[0]
            allowed = scores.allowed(start, stop, keys)
            _add_masses(pattern, named, start, keys.start, sums, counts)
            _add_entropy(pattern, allowed, sums, counts)
            best.append(_best_cells(pattern, telling_keys[keys], start, keys.start, top, far))
    means = (sums / counts.clamp_min(1)[:, None]).cpu()
    cells = torch.cat(best, 1).cpu()
    for head in range(layer.num_heads):
        masses = {rule: float(means[i, head]) for i, rule in enumerate(RULES)}
        does, mass = _verdict(masses, float(means[-1, head]))
        order = cells[head, :, 2].argsort(descending=True)[:top]
        strongest = tuple(
            Cell(int(q), int(k), float(w)) for q, k, w in cells[head, order].tolist() if w > 0
        )
        yield HeadSummary(layer.id.head(head), layer.kv_group(head), does, mass, masses, strongest)


def _verdict(masses: dict[str, float], evenness: float) -> tuple[str, float]:
    rule = max(masses, key=lambda name: masses[name])
    if masses[rule] >= ENOUGH:
        return rule, masses[rule]
    if evenness >= EVEN:
        return "spread", evenness
    return "other", max(0.0, 1.0 - sum(masses.values()))


def _add_masses(
    pattern: Tensor,
    named: dict[str, Tensor],
    start: int,
    low: int,
    sums: Tensor,
    counts: Tensor,
) -> None:
    """Add the attention under each rule, over queries where the rule's key is no other rule's.

    The block holds the keys from `low` on; a key outside it is not seen, and has no mass.
    """
    rows = torch.arange(start, start + pattern.shape[1], device=pattern.device)
    for i, rule in enumerate(RULES):
        key = named[rule][rows]
        apart = key >= 0
        for other in RULES:
            if other != rule:
                apart &= named[other][rows] != key
        held = (key >= low) & (key < low + pattern.shape[2])
        index = (key - low).clamp(0, pattern.shape[2] - 1)
        index = index[None, :, None].expand(pattern.shape[0], -1, 1)
        mass = pattern.gather(2, index)[..., 0] * (apart & held)
        sums[i] += mass.sum(1)
        counts[i] += apart.sum()


def _add_entropy(pattern: Tensor, allowed: Tensor | None, sums: Tensor, counts: Tensor) -> None:
    """Add each row's entropy as a share of the log of what it may see, over rows that see two or more."""
    if allowed is None:
        visible = pattern.new_full((pattern.shape[1],), pattern.shape[2])
    else:
        visible = allowed[0].sum(-1).to(pattern.dtype).amax(0)
    some = visible >= 2
    entropy = torch.special.entr(pattern).sum(-1) / visible.clamp_min(2).log()
    sums[-1] += (entropy * some).sum(1)
    counts[-1] += some.sum()


def _best_cells(
    pattern: Tensor, telling_keys: Tensor, start: int, low: int, top: int, far: int
) -> Tensor:
    """The strongest telling cells of a block of rows, [head, top, (query, key, weight)]."""
    _, rows, keys = pattern.shape
    q = torch.arange(start, start + rows, device=pattern.device)[:, None]
    k = torch.arange(low, low + keys, device=pattern.device)
    apart = (q - k).abs() >= far
    worth = pattern * telling_keys * apart
    weight, at = worth.flatten(1).topk(min(top, rows * keys), dim=1)
    query = at.div(keys, rounding_mode="floor") + start
    return torch.stack([query.double(), (at % keys + low).double(), weight.double()], -1)


def _telling_keys(side: Side) -> Tensor:
    """1 for tokens of letters or digits and for positions, 0 for special tokens, punctuation and the first."""
    letters = [
        token.id < 0 or (not token.special and any(c.isalnum() for c in token.text))
        for token in side.tokens
    ]
    if letters:
        letters[0] = False
    return torch.tensor(letters, dtype=torch.float32)
