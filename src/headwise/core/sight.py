"""Sight: which keys some rows of queries may see, asked of the mask once for all heads and uses.

Where a window settles it (causal attention away from the diagonal) the mask is not asked at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.rules import Window


@dataclass(frozen=True, eq=False)
class Sight:
    """Which of some keys some rows of queries may see.

    Attributes:
        keys: the keys asked about; any others none of the rows sees.
        closed: the parts of these keys (counted from their first) of which not all rows see all, with True
            where a row may not see a key. All rows see all other keys.
        visible: how many keys each row may see.
        blind: rows that may see nothing; None where there surely are none.
    """

    keys: slice
    closed: tuple[tuple[slice, Bool[Tensor, "#batch #head query _"]], ...]
    visible: Int[Tensor, "#batch #head query"]
    blind: Bool[Tensor, "#batch #head query 1"] | None

    def seen_by(self, real: Bool[Tensor, "#batch query"]) -> Int[Tensor, "_ _ key"]:
        """How many of the real queries may see each key."""
        count = real.sum(-1)[:, None, None]
        parts, done = [], 0
        width = self.keys.stop - self.keys.start
        for part, closed in self.closed:
            parts.append(count.expand(-1, closed.shape[1], part.start - done))
            parts.append((~closed & real[:, None, :, None]).sum(2))
            done = part.stop
        parts.append(count.expand(-1, 1, width - done))
        batch, heads = (max(x.shape[axis] for x in parts) for axis in (0, 1))
        return torch.cat([x.expand(batch, heads, -1) for x in parts], -1)


def sight_of(
    mask: Mask | None,
    rows: range,
    keys: slice,
    ask: Callable[[slice], Tensor | None],
    device: torch.device,
) -> Sight:
    """The sight of the queries at the positions `rows` over `keys`; `ask` gives the mask's answer."""
    sure = _seen_by_all(mask, rows, keys)
    edges = [slice(keys.start, sure.start), slice(sure.stop, keys.stop)]
    closed = []
    visible = torch.full((1, 1, len(rows)), sure.stop - sure.start, device=device)
    for edge in edges:
        allowed = ask(edge) if edge.start < edge.stop else None
        if allowed is not None:
            visible = visible + allowed.sum(-1)
            part = slice(edge.start - keys.start, edge.stop - keys.start)
            closed.append((part, ~allowed))
    blind = (visible == 0)[..., None] if sure.start >= sure.stop else None
    return Sight(keys, tuple(closed), visible, blind)


def heads_of(x: Tensor, heads: slice) -> Tensor:
    """x [batch, #head, ...] for a slice of the heads; an axis of size 1 stays."""
    return x[:, heads] if x.shape[1] > 1 else x


def _seen_by_all(mask: Mask | None, rows: range, keys: slice) -> slice:
    """Keys that all the rows surely see; an empty slice at the end of `keys` where none is sure."""
    if mask is None:
        return keys
    nothing = slice(keys.stop, keys.stop)
    if mask.limits or not isinstance(mask.rule, Window) or not rows:
        return nothing
    back, ahead = mask.rule.band()
    low = keys.start if back is None else max(keys.start, rows[-1] - back)
    high = keys.stop if ahead is None else min(keys.stop, rows[0] + ahead + 1)
    return slice(low, high) if low < high else nothing
