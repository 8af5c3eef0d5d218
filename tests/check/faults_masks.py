"""Faults of the mask: who may look at whom is written down wrongly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from zoo_parts import (
    HEADS,
    VOCAB,
    WIDTH,
    Attention,
    Banded,
    Block,
    Full,
    Reader,
    causal_mask,
    fault,
)

from headwise.core import masks


class Prefixed(Attention):
    def allowed(self, n: int) -> Tensor:
        return super().allowed(n) | (torch.arange(n) < 3)


class Finite(Attention):
    """A mask value that is finite, and logits as large as the weights make them."""

    def __init__(self, value: float, loud: float = 1.0) -> None:
        super().__init__()
        self.value = value
        with torch.no_grad():
            self.qkv.weight[: 2 * WIDTH] *= loud

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return (scores + self.value * (~allowed)).softmax(-1)


class AddedAsOnes(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return (scores + allowed.to(scores.dtype)).softmax(-1)


class AfterSoftmax(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.softmax(-1) * allowed


class Inverted(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(allowed, -1e9).softmax(-1)


class OverQueries(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -1e9).softmax(-2)


class Transposed(Attention):
    def allowed(self, n: int) -> Tensor:
        return super().allowed(n).T


class CutOff(Attention):
    """A triangle of at most 8 positions; what lies beyond it is left visible."""

    def allowed(self, n: int) -> Tensor:
        m = min(n, 8)
        return F.pad(super().allowed(m), (0, n - m, 0, n - m), value=True)


class SecondHeads(Attention):
    def allowed(self, n: int) -> Tensor:
        open_heads = torch.arange(self.heads) % 2 == 1
        return super().allowed(n) | open_heads[:, None, None]


class StaleLength(Attention):
    """A mask kept from a text that was shorter by as many tokens as the layer's number."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer

    def allowed(self, n: int) -> Tensor:
        kept = super().allowed(n - self.layer)
        return F.pad(kept, (0, self.layer, 0, self.layer), value=True)


class Normalised(Attention):
    """Scores divided by the largest of all, the hidden ones too."""

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return super().weigh(4 * scores / scores.abs().amax((1, 2, 3), keepdim=True), allowed)


class Diagonal(Attention):
    """One diagonal too many: every token sees the next one."""

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril(1)


class Unpermuted(Attention):
    """Heads joined without the transpose back, so positions mix."""

    def joined(self, z: Tensor) -> Tensor:
        return z.reshape(z.shape[0], z.shape[2], -1)


class ChunkWide(Attention):
    """Chunks of four that see all of their chunk."""

    def allowed(self, n: int) -> Tensor:
        chunk = torch.arange(n) // 4
        return chunk[:, None] >= chunk


class Turns(Reader):
    """One block read three times; the second time without its mask."""

    def __init__(self) -> None:
        super().__init__(Block(Turning()))

    def read(self, x: Tensor, **given: Any) -> Tensor:
        for turn in range(3):
            self.blocks[0].attention.turn = turn
            x = self.blocks[0](x)
        return self.head(self.norm(x))


class Turning(Attention):
    turn = 0

    def allowed(self, n: int) -> Tensor:
        return super().allowed(n) | (self.turn == 1)


class TorchStack(nn.Module):
    """torch's encoder layers, the mask passed to all but one of them."""

    def __init__(self, without: int) -> None:
        super().__init__()
        self.without = without
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 40, 0.0, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        mask = causal_mask(ids.shape[1]).to(x)
        for i, layer in enumerate(self.layers):
            x = layer(x, None if i == self.without else mask)
        return self.head(x)


class TorchPolarity(nn.Module):
    """torch.nn.MultiheadAttention hides where True; here True was meant as "may attend"."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        earlier = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril(-1)
        return self.head(x + self.attn(x, x, x, attn_mask=earlier)[0])


def three(middle: nn.Module, others: type[Attention] = Attention) -> Reader:
    return Reader(Block(others()), Block(middle), Block(others()))


def banded(*windows: int) -> Reader:
    return Reader(*(Block(Banded(window)) for window in windows))


def second(mix: nn.Module) -> Reader:
    return Reader(Block(), Block(mix))


WINDOW = masks.causal() & masks.window(4)
DOCUMENTS = masks.causal() & masks.documents([0] * 6 + [1] * 7 + [2] * 4)

FAULTS = [
    fault(
        "one bidirectional layer of three", lambda: three(Full()), "future", "blocks.1.attention"
    ),
    fault("mask dropped in the last layer", lambda: TorchStack(2), "future", "layers.2.self_attn"),
    fault(
        "window one too wide",
        lambda: banded(5, 5),
        "future",
        "blocks.0.attention",
        mask=WINDOW,
        layers=2,
    ),
    fault(
        "window one too wide in one layer of three",
        lambda: banded(4, 5, 4),
        "future",
        "blocks.1.attention",
        mask=WINDOW,
        layers=3,
    ),
    fault(
        "global layer where a window is declared",
        lambda: banded(4, 10**6),
        "future",
        "blocks.1.attention",
        mask=[WINDOW, WINDOW],
        layers=2,
    ),
    fault("prefix not declared", lambda: second(Prefixed()), "future", "blocks.1.attention"),
    fault(
        "prefix longer than declared",
        lambda: second(Prefixed()),
        "future",
        "blocks.1.attention",
        mask=masks.causal() | masks.prefix(2),
        layers=2,
    ),
    fault(
        "-1e4 beaten by logits",
        lambda: second(Finite(-1e4, 300.0)),
        "future",
        "blocks.1.attention",
    ),
    fault(
        "-100 beaten by logits",
        lambda: second(Finite(-100.0, 20.0)),
        "future",
        "blocks.1.attention",
    ),
    fault(
        "-50 in the gradient alone", lambda: second(Finite(-50.0)), "future", "blocks.1.attention"
    ),
    fault("mask added as 0 and 1", lambda: second(AddedAsOnes()), "future", "blocks.1.attention"),
    fault("mask after the softmax", lambda: second(AfterSoftmax()), "future", "blocks.1.attention"),
    fault("inverted mask", lambda: second(Inverted()), "future", "blocks.1.attention"),
    fault("inverted mask of torch", TorchPolarity, "future", "attn"),
    fault(
        "softmax over the queries", lambda: second(OverQueries()), "future", "blocks.1.attention"
    ),
    fault("transposed mask", lambda: second(Transposed()), "future", "blocks.1.attention"),
    fault("one diagonal too many", lambda: second(Diagonal()), "future", "blocks.1.attention"),
    fault(
        "mask cut to a length", lambda: second(CutOff()), "future", "blocks.1.attention", length=19
    ),
    fault(
        "every second head unmasked", lambda: second(SecondHeads()), "future", "blocks.1.attention"
    ),
    fault(
        "mask kept at a wrong length",
        lambda: second(StaleLength(1)),
        "future",
        "blocks.1.attention",
    ),
    fault(
        "scores divided by the maximum",
        lambda: second(Normalised()),
        "future",
        "blocks.1.attention",
    ),
    fault(
        "heads joined untransposed", lambda: second(Unpermuted()), "future", "blocks.1.attention"
    ),
    fault(
        "chunks that see their whole", lambda: second(ChunkWide()), "future", "blocks.1.attention"
    ),
    fault("shared layer unmasked once", Turns, "future", "blocks.0.attention"),
    fault(
        "documents declared and ignored",
        Reader,
        "future",
        "blocks.0.attention",
        mask=DOCUMENTS,
        layers=2,
        length=17,
    ),
]
