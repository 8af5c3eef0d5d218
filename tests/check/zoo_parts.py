"""What the planted faults and the sound models are made of: a small decoder as people write it.

Each fault changes one part of it, by a subclass that overrides one method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import headwise as hw

WIDTH, HEADS, VOCAB, INNER, PLACES = 24, 3, 61, 40, 512


@dataclass(frozen=True)
class Sound:
    """A model in which nothing leaks, and how to call `hw.audit` on it."""

    name: str
    make: Callable[[], Any]
    call: Mapping[str, Any] = field(default_factory=dict)
    cheap: bool = True
    full: bool = False

    def build(self, seed: int) -> Any:
        torch.manual_seed(seed)
        made = self.make()
        return made.eval() if isinstance(made, nn.Module) else made

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


@dataclass(frozen=True)
class Fault(Sound):
    """A model with one planted fault: the dimension that must tell it, and the module it must name.

    `parts` says that parts of that module are as right an answer: it leaks in more than one of them.
    """

    dimension: str = "future"
    module: str = ""
    parts: bool = False

    def names(self, module: str | None) -> bool:
        """Whether the module named is the one that is at fault."""
        inside = self.parts and module is not None and module.startswith(f"{self.module}.")
        return module == self.module or inside


def fault(
    name: str,
    make: Callable[[], Any],
    dimension: str,
    module: str,
    *,
    parts: bool = False,
    **call: Any,
) -> Fault:
    return Fault(name, make, call, dimension=dimension, module=module, parts=parts)


def sound(
    name: str, make: Callable[[], Any], *, cheap: bool = True, full: bool = False, **call: Any
) -> Sound:
    """`full` says that every position may see every other, so that there is no future to check."""
    return Sound(name, make, call, cheap, full)


class Attention(nn.Module):
    """Causal multi-head attention; `padded` is True at padding, `documents` numbers the packed texts."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, padded: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        allowed = self.allowed(x.shape[1]).view(1, -1, x.shape[1], x.shape[1])
        if padded is not None:
            allowed = self.hide(allowed, padded)
        if documents is not None:
            allowed = self.part(allowed, documents)
        return self.out(self.joined(self.weigh(scores, allowed) @ v))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return q, k, v

    def allowed(self, n: int) -> Tensor:
        """[query, key], or with a head axis before them."""
        return torch.ones(n, n, dtype=torch.bool).tril()

    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        return allowed & ~padded[:, None, None, :]

    def part(self, allowed: Tensor, documents: Tensor) -> Tensor:
        return allowed & (documents[:, None, :, None] == documents[:, None, None, :])

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)

    def joined(self, z: Tensor) -> Tensor:
        return z.transpose(1, 2).flatten(2)


class Full(Attention):
    """Attention without the causal mask."""

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool)


class Banded(Attention):
    """The last `window` positions, the own one included."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def allowed(self, n: int) -> Tensor:
        return super().allowed(n).triu(1 - self.window)


class FeedForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))


class Block(nn.Module):
    """x + mix(norm(x)), then x + ffn(norm(x)); what mixes positions is named `attention` where it is that."""

    def __init__(
        self,
        mix: nn.Module | None = None,
        ffn: nn.Module | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH) if norm is None else norm
        mix = Attention() if mix is None else mix
        self.mixed_by = "attention" if isinstance(mix, Attention) else "mix"
        self.add_module(self.mixed_by, mix)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.ffn = FeedForward() if ffn is None else ffn

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        x = x + getattr(self, self.mixed_by)(self.norm1(x), **given)
        return x + self.ffn(self.norm2(x))


class Reader(nn.Module):
    """Token ids to logits through some blocks; without any, two plain ones."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.places = nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.ModuleList(blocks or (Block(), Block()))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.read(self.start(ids))

    def start(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        places = torch.arange(ids.shape[1]) if places is None else places
        return self.embed(ids) + self.places(places)

    def read(self, x: Tensor, **given: Any) -> Tensor:
        for block in self.blocks:
            x = block(x, **given)
        return self.head(self.norm(x))


class Padded(Reader):
    """A Reader of padded batches, padding on either side; positions count real tokens."""

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if key_padding_mask is None:
            return self.read(self.start(ids))
        places = ((~key_padding_mask).cumsum(1) - 1).clamp_min(0)
        return self.read(self.start(ids, places), padded=key_padding_mask)


class Packed(Reader):
    """A Reader of rows that hold several documents; positions start anew in each."""

    def forward(self, ids: Tensor, documents: Tensor | None = None) -> Tensor:
        if documents is None:
            return self.read(self.start(ids))
        same = documents[:, :, None] == documents[:, None, :]
        places = same.tril(-1).sum(-1)
        return self.read(self.start(ids, places), documents=documents)


def config(layers: int = 2, **fields: Any) -> hw.nn.TransformerConfig:
    """Of a tiny model of headwise."""
    return hw.nn.TransformerConfig(
        vocab_size=VOCAB, d_model=WIDTH, num_layers=layers, num_heads=HEADS, **fields
    )


def wide(model: nn.Module) -> nn.Module:
    """The model with its matrices drawn wide, so that attention is more than a mean."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3)
    return model


def causal_mask(n: int) -> Tensor:
    """The additive mask of torch: 0 where allowed, -inf elsewhere."""
    return torch.full((n, n), float("-inf")).triu(1)
