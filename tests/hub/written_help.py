"""Users' own attention, in the ways people write it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headwise.core.taps import Tap, tapped

HEADS, DIM = 3, 4


class Textbook(nn.Module):
    """The three lines of the textbook, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        width = HEADS * DIM
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def split(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, ...]:
        made = (
            self.q(x),
            *(linear(x if memory is None else memory) for linear in (self.k, self.v)),
        )
        return tuple(y.view(*y.shape[:2], HEADS, DIM).transpose(1, 2) for y in made)

    def join(self, z: Tensor) -> Tensor:
        return self.out(z.transpose(1, 2).reshape(z.shape[0], -1, HEADS * DIM))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(DIM)
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        scores = scores.masked_fill(future, float("-inf"))
        self.pattern = torch.softmax(scores, dim=-1)
        return self.join(self.pattern @ v)


class Fused(Textbook):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        return self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class FusedWithMask(Textbook):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        n = x.shape[1]
        low = torch.full((n, n), float("-inf")).triu(1)
        z = F.scaled_dot_product_attention(q * 2, k, v, attn_mask=low, scale=DIM**-0.5 / 2)
        return self.join(z)


class Einsum(Textbook):
    """Heads after positions, and a mask that multiplies."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.transpose(1, 2) for y in self.split(x))
        scores = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        seen = torch.ones(x.shape[1], x.shape[1]).tril()
        scores = scores.masked_fill(seen[None, None] == 0, -1e20)
        pattern = F.softmax(scores / DIM**0.5, dim=3)
        z = torch.einsum("nhql,nlhd->nqhd", [pattern, v])
        return self.out(z.reshape(*z.shape[:2], -1))


class Folded(Textbook):
    """Batch and heads in one axis, in place, with a dropout that does nothing."""

    def forward(self, x: Tensor) -> Tensor:
        batch, n, _ = x.shape
        q, k, v = (y.reshape(batch * HEADS, n, DIM) for y in self.split(x))
        scores = torch.bmm(q * DIM**-0.5, k.mT)
        scores += torch.full((n, n), torch.finfo(x.dtype).min).triu(1)
        pattern = F.dropout(nn.Softmax(-1)(scores), 0.5, self.training)
        return self.join(torch.bmm(pattern, v).view(batch, HEADS, n, DIM))


class TimeFirst(Textbook):
    """Called with [position, batch, width], as fairseq has it."""

    time_first = True

    def forward(self, t: Tensor) -> Tensor:
        n, batch = t.shape[:2]
        q, k, v = (
            f(t).contiguous().view(n, batch * HEADS, DIM).transpose(0, 1)
            for f in (self.q, self.k, self.v)
        )
        scores = torch.baddbmm(t.new_zeros(1, n, n), q, k.mT, alpha=DIM**-0.5)
        scores = torch.where(torch.ones(n, n).tril().bool(), scores, -1e9)
        z = torch.bmm(scores.softmax(-1), v)
        return self.out(z.transpose(0, 1).reshape(n, batch, -1))


class Multiplied(Textbook):
    """A mask of ones and zeros, as the first GPT has it, and a clamp that nothing reaches."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        seen = torch.ones(x.shape[1], x.shape[1]).tril()
        scores = (q @ k.transpose(-1, -2)).div(math.sqrt(DIM)).clamp(-1e5, 1e5)
        scores = scores * seen - 1e4 * (1 - seen)
        return self.join(scores.float().softmax(-1).type_as(v) @ v)


class Turned(Textbook):
    """v^T pattern^T, as it is written for images."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = q @ k.transpose(-1, -2) * DIM**-0.5
        scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -1e9)
        turned = scores.softmax(-1).permute(0, 1, 3, 2)
        return self.join((v.transpose(-1, -2) @ turned).transpose(-1, -2))


def own_modules() -> list[nn.Module]:
    kinds = (Textbook, Fused, FusedWithMask, Einsum, Folded, TimeFirst, Multiplied, Turned)
    return [kind() for kind in kinds]


class Model(nn.Module):
    """Two layers of one kind of attention."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.table = nn.Embedding(10, HEADS * DIM)
        other = type(layer)(layer.kind) if hasattr(layer, "kind") else type(layer)()
        self.layers = nn.ModuleList([layer, other])

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        turned = hasattr(self.layers[0], "time_first")
        x = x.transpose(0, 1) if turned else x
        for layer in self.layers:
            x = x + layer(x)
        return x.transpose(0, 1) if turned else x


class _Crossing(Textbook):
    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self.split(x, memory)
        return self.join(F.scaled_dot_product_attention(q, k, v))


class Cross(nn.Module):
    """A decoder's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, HEADS * DIM)
        self.self_attn, self.cross_attn = Textbook(), _Crossing()

    def forward(self, ids: Tensor, memory: Tensor) -> Tensor:
        x = self.table(ids)
        return self.cross_attn(x + self.self_attn(x), memory)


def outputs(loaded: Any, inputs: Mapping[str, Any]) -> Tensor:
    """What the model gives by itself."""
    out = loaded.run(inputs)
    return out if isinstance(out, Tensor) else out[0]


def gated(loaded: Any, inputs: Mapping[str, Any], gate: Tensor) -> Tensor:
    """The same with a gate on every layer."""
    taps = {layer.module: Tap(gate=gate) for layer in loaded.anatomy.layers}
    with loaded.open(), tapped(taps):
        return outputs(loaded, inputs)
