"""What stands in for a head's output while it is ablated: zero, its mean, another of its outputs, a uniform look.

A head that is ablated by a factor g goes on as r + g (z - r), where r stands in: g = 1 leaves it as it is, 0
replaces it, and in between the gate lies on the line between both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.attention import Edit, attend
from headwise.core.scores import Scores
from headwise.cut.ablating.applying import own_heads
from headwise.names import ConfigError

__all__ = ["How", "StandIn", "check_how", "constant", "gated", "resampled", "uniform"]

How = Literal["zero", "mean", "resample", "uniform"]

StandIn = Callable[[Scores, Tensor, Tensor], Tensor]
"""Gives what stands in, as stand_in(scores, v, z), broadcastable to z [batch, head, query, v_dim]."""


def check_how(how: str) -> None:
    """Refuse a way that is not known.

    Raises:
        ConfigError: it is none of the four.
    """
    if how not in get_args(How):
        raise ConfigError(f"how={how!r} is not known; use one of {', '.join(get_args(How))}")


def gated(module: nn.Module, factors: Float[Tensor, " head"], stand_in: StandIn | None) -> Edit:
    """The edit r + g (z - r) of every head of a layer, with gradients for the factors g.

    A head of factor 1 goes on bit for bit.

    Args:
        module: the layer's.
        factors: one number for each head of the layer.
        stand_in: gives r; None = 0.
    """

    def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        g = own_heads(module, factors, z.shape[1]).to(z.device, z.dtype)[:, None, None]
        if stand_in is None:
            return z * g
        return torch.lerp(stand_in(scores, v, z).to(z.dtype).expand_as(z), z, g.expand_as(z))

    return edit


def constant(module: nn.Module, means: Float[Tensor, "head v_dim"]) -> StandIn:
    """A head's mean output over texts."""

    def stand_in(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        return own_heads(module, means, z.shape[1]).to(z.device, z.dtype)[:, None]

    return stand_in


def resampled(module: nn.Module, pool: Float[Tensor, "token head v_dim"], seed: int) -> StandIn:
    """A head's output at another token of some texts, drawn anew for each head, query and pass."""
    draw = torch.Generator().manual_seed(seed)

    def stand_in(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        heads = pool.shape[1]
        at = torch.randint(len(pool), (z.shape[0], z.shape[2], heads), generator=draw)
        drawn = pool[at, torch.arange(heads)].permute(2, 0, 1, 3)  # [head, batch, query, v_dim]
        mine = own_heads(module, drawn, z.shape[1]).transpose(0, 1)
        return mine.to(z.device, z.dtype)

    return stand_in


def uniform(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
    """The mean of the values a query may see: what the head gives if it looks evenly."""
    return attend(
        torch.zeros_like(scores.q),
        torch.zeros_like(scores.k),
        v,
        scores.mask,
        scale=1.0,
        query_offset=scores.query_offset,
    )
