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

from headwise.check.influence import Bench
from headwise.check.judging import Judgement
from headwise.check.noise import Coarsest

__all__ = ["Block", "blocks_of", "screened"]

_CUTS = 3


@dataclass(frozen=True, eq=False)
class Block:
    """Positions none of which may have an influence on any of some outputs."""

    queries: Bool[Tensor, " query"]
    keys: Bool[Tensor, " key"]


def blocks_of(forbidden: Bool[Tensor, "query key"]) -> list[Block]:
    """A few large blocks of forbidden pairs: the keys of some rows, and all rows that they are forbidden to.

    They need not cover every pair: of a causal mask, three cuts.
    """
    rows = forbidden.any(-1).nonzero().flatten()
    if not len(rows):
        return []
    alike = bool((forbidden[rows] == forbidden[rows[0]]).all())
    picks = torch.linspace(0, len(rows) - 1, 1 if alike else _CUTS).round().long()
    found = []
    for row in dict.fromkeys(rows[picks].tolist()):
        keys = forbidden[row]
        found.append(Block(forbidden[:, keys].all(-1), keys))
    return found


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
        plain = bench.look()
    scale = float(plain.abs().max())
    floor = coarsest.eps * scale
    if not bool(plain.isfinite().all()):
        return None
    most = 0.0
    zeros = torch.full(control.shape, torch.nan, dtype=torch.float64)
    for block in blocks:
        change = (bench.look(block.keys) - plain).abs().amax(-1)
        if not bool(change.isfinite().all()) or float(change[block.queries].max()) > 0.0:
            return None
        free = control[:, block.keys].any(-1)
        most = max(most, float(change[free].max()) if bool(free.any()) else 0.0)
        zeros[block.queries[:, None] & block.keys] = 0.0
    may = control.any(0)
    if most <= floor and bool(may.any()):  # under padding nothing may move: edit what may
        free = control.any(-1)
        most = float((bench.look(may) - plain).abs().amax(-1)[free].max())
    if most <= floor or not bench.silent([(b.queries, b.keys) for b in blocks]):
        return None
    return Judgement(
        True,
        floor=floor / most,
        smallest=coarsest.eps * scale / most,
        by="edit",
        measured=zeros,
    )
