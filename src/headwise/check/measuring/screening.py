"""A quick look: many positions edited at once, and many outputs' gradients in one.

Where not the last bit moves, nothing has an influence, and no closer look is needed. Anything else is measured pair
by pair (`judging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.check.measuring.influence import Bench
from headwise.check.measuring.judging import Judgement
from headwise.check.measuring.noise import Coarsest

__all__ = ["Block", "blocks_of", "screened"]

_FEW = 4
"""With fewer blocks than this their parts are looked at too."""


@dataclass(frozen=True, eq=False)
class Block:
    """Positions none of which may have an influence on any of some outputs."""

    queries: Bool[Tensor, " query"]
    keys: Bool[Tensor, " key"]
    part: bool = False
    """Whether another block holds it, so that gradients have nothing to add."""


def blocks_of(forbidden: Bool[Tensor, "query key"], most: int) -> list[Block]:
    """Blocks of forbidden pairs: a row's keys, and all rows that they are forbidden to; of a causal mask, cuts.

    Args:
        forbidden: pairs that must have no influence.
        most: how many blocks; with as many as there are different rows every pair is in one.
    """
    rows = [row for row in forbidden.unique(dim=0) if bool(row.any())]
    picks = rows
    if len(rows) > most:
        picks = [rows[(2 * i + 1) * len(rows) // (2 * most)] for i in range(most)]
    few = len(picks) < _FEW < most
    parts = [part for keys in picks for part in _parts(keys)] if few else []
    blocks = [Block(forbidden[:, keys].all(-1), keys) for keys in picks]
    return blocks + [Block(forbidden[:, keys].all(-1), keys, part=True) for keys in parts]


def _parts(keys: Bool[Tensor, " key"]) -> list[Tensor]:
    """Every second and every third of these: what goes by counts may come out the same where all are edited."""
    place = keys.cumsum(0)
    found = [keys & (place % step == start) for step in (2, 3) for start in range(step)]
    return [part for part in found if bool(part.any())]


def screened(
    bench: Bench, blocks: Sequence[Block], control: Bool[Tensor, "query key"]
) -> Judgement | None:
    """Clean where no bit of any block moves; None where a closer look is needed.

    Args:
        bench: what is looked at.
        blocks: of forbidden pairs.
        control: pairs that may have an influence, some of which must.
    """
    with Coarsest() as coarsest:
        plain = bench.plain()
    scale = float(plain.abs().max())
    if not bool(plain.isfinite().all()) or not blocks:
        return None
    free, may = control.any(-1), control.any(0)
    *moved, allowed = bench.changes([*(block.keys for block in blocks), may])
    most = float(allowed[free].max()) if bool(free.any()) else 0.0
    floor = coarsest.eps * scale
    forbidden = [change[b.queries] for change, b in zip(moved, blocks, strict=True)]
    if any(bool((change != 0.0).any()) for change in forbidden) or not most > floor:
        return None
    if not bench.silent([(block.queries, block.keys) for block in blocks if not block.part]):
        return None
    zeros = torch.full(control.shape, torch.nan, dtype=torch.float64)
    for block in blocks:
        zeros[block.queries[:, None] & block.keys] = 0.0
    return Judgement(
        True, floor=floor / most, smallest=bench.fine * scale / most, by="edit", measured=zeros
    )
