"""Faults of choice: routing, top-k, quantisation and dropping that look at the whole text."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from zoo_parts import WIDTH, Block, FeedForward, Reader, fault


class Experts(nn.Module):
    """Four experts; `choose` says which tokens each one takes, [batch, position, expert] of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(FeedForward() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.choose(self.router(x))
        return sum(weights[..., i, None] * expert(x) for i, expert in enumerate(self.experts))

    def choose(self, scores: Tensor) -> Tensor:
        """Each token's best expert."""
        best = scores.argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, best, 1.0)


class ExpertChoice(Experts):
    """Each expert takes the tokens that suit it best, of the whole text."""

    def choose(self, scores: Tensor) -> Tensor:
        count = max(1, scores.shape[1] // 3)
        best = scores.topk(count, dim=1).indices
        return torch.zeros_like(scores).scatter(1, best, 1.0)


class Capacity(Experts):
    """Each expert has few places, and gives them to the surest tokens first."""

    def choose(self, scores: Tensor) -> Tensor:
        wanted = super().choose(scores)
        sure = scores.softmax(-1) * wanted
        count = max(1, scores.shape[1] // 6)
        kept = torch.zeros_like(scores).scatter(1, sure.topk(count, dim=1).indices, 1.0)
        return wanted * kept


class CapacityAcrossRows(Experts):
    """Places are given in the order of the batch, so an earlier row takes them from a later one."""

    def choose(self, scores: Tensor) -> Tensor:
        wanted = super().choose(scores).flatten(0, 1)
        count = scores.shape[1] // 2
        return (wanted * (wanted.cumsum(0) <= count)).view_as(scores)


class Depth(Block):
    """A mixture of depths: only the third of the text with the highest scores goes through the block."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        scores = self.router(x).squeeze(-1)
        chosen = scores.topk(x.shape[1] // 3, dim=1).indices
        through = torch.zeros_like(scores).scatter(1, chosen, 1.0).bool()
        return torch.where(through[..., None], super().forward(x, **given), x)


class Quantised(nn.Module):
    """Numbers rounded to eight bits of the largest in the whole text."""

    def forward(self, x: Tensor) -> Tensor:
        scale = x.detach().abs().amax((1, 2), keepdim=True) / 127
        return (x / scale).round() * scale


class QuantisedRows(nn.Module):
    """One scale for the whole batch."""

    def forward(self, x: Tensor) -> Tensor:
        scale = x.detach().abs().max() / 127
        return (x / scale).round() * scale


class DroppedByRow(nn.Module):
    """Drops, while training, the positions that are weak for their text."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        size = x.norm(dim=-1, keepdim=True)
        return x * (size >= size.median(1, keepdim=True).values)


class Ranked(nn.Module):
    """Each position scaled by its rank among all, which has no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        rank = x.norm(dim=-1).argsort(1).argsort(1).to(x.dtype)
        return x * (1 + rank[..., None] / x.shape[1])


class Clipped(nn.Module):
    """Clipped at a quantile of the whole text."""

    def forward(self, x: Tensor) -> Tensor:
        bound = x.abs().flatten(1).quantile(0.5, dim=1)[:, None, None]
        return x.clamp(-bound, bound)


def in_second(**parts: nn.Module) -> Reader:
    return Reader(Block(), Block(**parts))


FAULTS = [
    fault("expert choice", lambda: in_second(ffn=ExpertChoice()), "future", "blocks.1.ffn"),
    fault("expert capacity", lambda: in_second(ffn=Capacity()), "future", "blocks.1.ffn"),
    fault(
        "expert capacity shared by rows",
        lambda: in_second(ffn=CapacityAcrossRows()),
        "rows",
        "blocks.1.ffn",
    ),
    fault("top-k over the whole text", lambda: Reader(Block(), Depth()), "future", "blocks.1"),
    fault(
        "quantised by the largest", lambda: in_second(norm=Quantised()), "future", "blocks.1.norm1"
    ),
    fault(
        "quantised by the batch", lambda: in_second(norm=QuantisedRows()), "rows", "blocks.1.norm1"
    ),
    fault(
        "dropped by the whole row",
        lambda: in_second(norm=DroppedByRow()),
        "future",
        "blocks.1.norm1",
    ),
    fault("rank in the whole text", lambda: in_second(norm=Ranked()), "future", "blocks.1.norm1"),
    fault("clipped at a quantile", lambda: in_second(norm=Clipped()), "future", "blocks.1.norm1"),
]
