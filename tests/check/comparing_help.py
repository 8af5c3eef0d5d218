"""Inputs for comparisons, and a small decoder with a cache, written by hand, in which faults can be planted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headwise.check.comparing import Draw
from headwise.check.reading.given import Given, Source
from headwise.check.running.subject import Subject, prepared, subject_of
from headwise.check.telling.report import Outcome

sys.path.append(str(Path(__file__).parents[1] / "hub"))

LENGTH, VOCAB = 13, 40


def subject(model: Any) -> Subject:
    """In float64, as an audit runs it."""
    return prepared(subject_of(model), torch.float64, wide=False)


def draw_for(audited: Subject, seed: int = 0, length: int = LENGTH) -> Draw:
    """Two rows of ids, and a source where one is read."""
    source = Source(torch.arange(5, VOCAB), None, seed)

    def draw(salt: int) -> Given:
        read = source.draw(2, 9, salt=salt + 100) if "source" in audited.takes else None
        return Given(source.draw(2, length, salt=salt), source=read)

    return draw


def told(outcomes: list[Outcome]) -> dict[str, str]:
    """Verdicts by case."""
    return {outcome.case: outcome.verdict for outcome in outcomes}


class Attention(nn.Module):
    """Two heads; keys and values of earlier calls come in as `past`. `fault` names what it does wrong."""

    def __init__(self, width: int, window: int | None, fault: str) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.window, self.fault = window, fault

    def forward(
        self, x: Tensor, real: Tensor | None, past: Any = None, asked: bool = False
    ) -> tuple[Tensor, Any]:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, 2, width // 2).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        before = 0
        if past is not None and self.fault != "unread":
            k, v, before = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2), past[2]
        held = k.shape[2]
        first = before + length - held  # the position of the first key
        queries = before + torch.arange(length)[:, None]
        keys = first + torch.arange(held)
        if self.fault == "top-left":
            queries = torch.arange(length)[:, None] + (before if length == 1 else 0)
        may = keys <= queries
        if self.fault == "first key" and past is not None:
            may = (keys - first) <= torch.arange(length)[:, None]
        if self.window is not None:
            may = may & (keys > queries - self.window)
        if self.fault == "asked" and asked:
            may = torch.ones_like(may)
        may = may.expand(batch, 1, -1, -1)
        if real is not None and not (self.fault == "padding" and past is not None):
            may = may & real[:, None, None, -held:].bool()
        scores = q @ k.transpose(-1, -2) / (width // 2) ** 0.5
        if self.fault == "added":
            scores = (scores + may.to(scores)).masked_fill(keys > queries, -torch.inf)
        else:
            scores = scores.masked_fill(~may, torch.finfo(scores.dtype).min)
        z = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        keep = held if self.window is None else self.window - 1 - (self.fault == "rolling")
        state = (k[:, :, -keep:], v[:, :, -keep:], before + length)
        return self.out(z), state


class Plain(nn.Module):
    """A decoder as people write it: (logits, state), positions added."""

    def __init__(self, fault: str = "", window: int | None = None, layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(VOCAB, 16), nn.Embedding(64, 16)
        self.layers = nn.ModuleList(
            Attention(16, window, fault if i == layers - 1 else "") for i in range(layers)
        )
        self.norm = nn.BatchNorm1d(16) if fault == "batch norm" else nn.LayerNorm(16)
        self.fault = fault
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.35)

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        state: Any = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Any]:
        before = 0 if state is None else state[0][2]
        if self.fault == "position" and state is not None:
            before -= 1
        if position_ids is None:
            position_ids = before + torch.arange(ids.shape[1])[None]
        x = self.tokens(ids) + self.places(position_ids)
        states = []
        for i, layer in enumerate(self.layers):
            past = None if state is None else state[i]
            z, kept = layer(x, attention_mask, past, output_attentions)
            x = x + z
            states.append(kept)
        if self.fault == "dropout":
            x = F.dropout(x, 0.2, training=True)
        if self.fault == "jitter" and self.training:
            x = x * torch.empty_like(x).uniform_(0.9, 1.1)
        if self.fault == "mean":
            x = x - x.mean(1, keepdim=True)
        x = self.norm(x.flatten(0, 1)).view_as(x) if self.fault == "batch norm" else self.norm(x)
        return x @ self.tokens.weight.T, states
