"""Sound models that are unusual in another way: experts, random depth, shared layers, odd inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from faults_batches import TorchTranslator, Translator
from faults_routing import Experts
from torch import Tensor, nn
from torch.nn import functional as F
from zoo_parts import VOCAB, WIDTH, Attention, Block, FeedForward, Reader, sound

from headwise.core import masks


class TopTwo(Experts):
    def choose(self, scores: Tensor) -> Tensor:
        best = scores.topk(2, dim=-1)
        weights = best.values.softmax(-1)
        return torch.zeros_like(scores).scatter(-1, best.indices, weights)


class Gathered(Experts):
    """Each expert reads its tokens alone, so the shapes of its products follow from the text."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        best = self.router(flat).argmax(-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            out[best == i] = expert(flat[best == i])
        return out.view_as(x)


class FirstCome(Experts):
    """Each expert has few places in a row, and gives them to the tokens that come first."""

    def choose(self, scores: Tensor) -> Tensor:
        wanted = super().choose(scores)
        return wanted * (wanted.cumsum(1) <= 3)


class Noisy(Experts):
    """Noise on the router while training."""

    def choose(self, scores: Tensor) -> Tensor:
        return super().choose(scores + torch.randn_like(scores) * self.training)


class RandomDepth(Block):
    """Rows that skip the block while training."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        y = super().forward(x, **given)
        if not self.training:
            return y
        return torch.where(torch.rand(x.shape[0], 1, 1) < 0.3, x, y)


class Dropping(Attention):
    """Dropout in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return F.dropout(super().weigh(scores, allowed), 0.2, self.training)

    def joined(self, z: Tensor) -> Tensor:
        return self.drop(super().joined(z))


class Shared(Reader):
    """One block read three times, its embedding tied to its head."""

    def __init__(self) -> None:
        super().__init__(Block())
        self.head.weight = self.embed.weight

    def read(self, x: Tensor, **given: Any) -> Tensor:
        for _ in range(3):
            x = self.blocks[0](x)
        return self.head(self.norm(x))


class Named(Reader):
    """Returns a dict, its logits not first."""

    def forward(self, ids: Tensor) -> dict[str, Any]:
        logits = super().forward(ids)
        return {"loss": logits.mean(), "pooled": logits.mean(1), "logits": logits}


class Hidden(Reader):
    """Returns hidden states in a tuple."""

    def read(self, x: Tensor, **given: Any) -> Any:
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1]))
        return self.norm(states[-1]), tuple(states)


class OfVectors(nn.Module):
    """Reads vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList((Block(), Block()))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Quantised(nn.Module):
    """Each position rounded to eight bits of its own largest number."""

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round() * scale


class EmbeddingNoise(Reader):
    """NEFTune: noise on the embeddings while training."""

    def start(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        x = super().start(ids, places)
        return x + torch.rand_like(x) * self.training


class Counting(Reader):
    """Counts its calls in a buffer that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(ids)


class Lazy(Attention):
    """Keeps its mask from call to call, and makes a longer one where it is too short."""

    kept = torch.ones(0, 0, dtype=torch.bool)

    def allowed(self, n: int) -> Tensor:
        if self.kept.shape[0] < n:
            self.kept = super().allowed(n)
        return self.kept[:n, :n]


class Frozen(nn.Module):
    """Batch norm that never takes its numbers from the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class Quiet(Reader):
    """A head so weak that its logits are next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.head.weight *= 1e-6
            self.head.bias.zero_()


def function() -> Callable[[Tensor], Tensor]:
    """A function of ids that is no module."""
    table, kernel = torch.randn(VOCAB, WIDTH), torch.randn(WIDTH, VOCAB)

    def decayed(ids: Tensor) -> Tensor:
        state, out = torch.zeros(ids.shape[0], WIDTH), []
        for column in ids.unbind(1):
            state = 0.5 * state + table[column]
            out.append(state.tanh())
        return torch.stack(out, 1) @ kernel

    return decayed


def ids(seed: int = 0) -> Tensor:
    return torch.randperm(VOCAB, generator=torch.Generator().manual_seed(seed))[:19][None]


def vectors() -> Tensor:
    return torch.randn(2, 13, WIDTH, generator=torch.Generator().manual_seed(0))


def experts(kind: type[nn.Module]) -> Reader:
    return Reader(Block(ffn=kind()), Block(ffn=kind()))


SOUND = [
    sound("experts, top 1", lambda: experts(Experts)),
    sound("experts, top 2", lambda: experts(TopTwo)),
    sound("experts that gather their tokens", lambda: experts(Gathered)),
    sound("experts, first come", lambda: experts(FirstCome)),
    sound("experts, noise in training", lambda: experts(Noisy)),
    sound("random depth", lambda: Reader(RandomDepth(), RandomDepth())),
    sound("dropout", lambda: Reader(Block(Dropping()), Block(Dropping()))),
    sound("noise on embeddings in training", EmbeddingNoise),
    sound("shared layers, tied head", Shared),
    sound("dict of outputs", Named),
    sound("hidden states", Hidden),
    sound("vectors in", OfVectors, inputs=vectors()),
    sound("a function", function, inputs=ids()),
    sound("quantised by position", lambda: Reader(Block(norm=Quantised()), Block(FeedForward()))),
    sound("counts its calls", Counting),
    sound("keeps its mask", lambda: Reader(Block(Lazy()), Block(Lazy()))),
    sound("frozen batch norm", lambda: Reader(Block(norm=Frozen()), Block(norm=Frozen()))),
    sound("weak head", Quiet),
    sound("encoder-decoder by hand", lambda: Translator((True, True))),
    sound("torch's Transformer", lambda: TorchTranslator(hides=True)),
    sound("full attention declared", Reader, full=True, mask=masks.full(), layers=2),
]
