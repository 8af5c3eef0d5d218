"""Sound attention of many kinds: nothing in these may be accused."""

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
    Packed,
    Padded,
    Reader,
    causal_mask,
    config,
    sound,
    wide,
)

import headwise as hw
from headwise.core import masks


class Grouped(Attention):
    """Three query heads for one head of keys and values."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x)
        return q, k[:, :1].expand_as(q), v[:, :1].expand_as(q)


class Alibi(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        n = scores.shape[-1]
        back = torch.arange(n)[:, None] - torch.arange(n)
        slopes = 2.0 ** -torch.arange(1.0, self.heads + 1)
        return super().weigh(scores - slopes[:, None, None].to(scores) * back, allowed)


class Rotary(Attention):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x)
        half = q.shape[-1] // 2
        turns = torch.arange(x.shape[1])[:, None] * 100.0 ** -(torch.arange(half) / half)
        cos, sin = turns.cos().repeat(1, 2).to(x), turns.sin().repeat(1, 2).to(x)

        def turned(y: Tensor) -> Tensor:
            return y * cos + torch.cat((-y[..., half:], y[..., :half]), -1) * sin

        return turned(q), turned(k), v


class Bucketed(Attention):
    """T5's learned bias by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(16, HEADS)

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        n = scores.shape[-1]
        back = (torch.arange(n)[:, None] - torch.arange(n)).clamp(0, 15)
        return super().weigh(scores + self.bias(back).permute(2, 0, 1), allowed)


class Softcapped(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return super().weigh(2 * (scores / 2).tanh(), allowed)


class Sinks(Attention):
    """A learned score that takes weight and gives nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.randn(HEADS))

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        sink = self.sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        always = torch.ones(*allowed.shape[:3], 1, dtype=torch.bool)
        return super().weigh(torch.cat((scores, sink), -1), torch.cat((allowed, always), -1))[
            ..., :-1
        ]


class Finite(Attention):
    """-1e9 in ordinary weights: exactly nothing comes through."""

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -1e9).softmax(-1)


class Prefixed(Attention):
    def allowed(self, n: int) -> Tensor:
        return super().allowed(n) | (torch.arange(n) < 3)


class Fused(Attention):
    def forward(self, x: Tensor, **given: Any) -> Tensor:
        z = F.scaled_dot_product_attention(*self.project(x), is_causal=True)
        return self.out(self.joined(z))


class Strongest(Attention):
    """The four strongest keys of the past of each query, the others left out."""

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        scores = scores.masked_fill(~allowed, -1e9)
        least = scores.topk(min(4, scores.shape[-1]), dim=-1).values[..., -1:]
        return scores.masked_fill(scores < least, -1e9).softmax(-1) * allowed


class InFloat32(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return super().weigh(scores.float(), allowed).to(scores)


class InBFloat16(Attention):
    """A model written for bfloat16, whatever the dtype of its weights."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        q, k, v = (y.bfloat16() for y in self.project(x))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(self.joined(z).to(x))


class Exact(Attention):
    """Online softmax over blocks of keys, as flash attention does it."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        q, k, v = self.project(x)
        allowed = self.allowed(x.shape[1])
        most = torch.full_like(q[..., :1], torch.finfo(q.dtype).min)
        total, z = torch.zeros_like(most), torch.zeros_like(q)
        for start in range(0, x.shape[1], 5):
            keys = slice(start, start + 5)
            scores = q @ k[:, :, keys].mT / q.shape[-1] ** 0.5
            scores = scores.masked_fill(~allowed[:, keys], float("-inf"))
            larger = torch.maximum(most, scores.amax(-1, keepdim=True))
            shrink, weights = (most - larger).exp(), (scores - larger).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            z, most = z * shrink + weights @ v[:, :, keys], larger
        return self.out(self.joined(z / total))


class TorchDecoder(nn.Module):
    """torch.nn.TransformerEncoder under a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 40, 0.1, batch_first=True)
        self.inner = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(self.inner(x, causal_mask(ids.shape[1]).to(x), is_causal=True))


class TorchEncoder(TorchDecoder):
    """The same with everything visible and padding hidden."""

    def forward(self, ids: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        x = self.inner(self.embed(ids), src_key_padding_mask=src_key_padding_mask)
        return self.head(x)


def both(mix: type[nn.Module]) -> Reader:
    return Reader(Block(mix()), Block(mix()))


def windows(*sizes: int) -> Reader:
    return Reader(*(Block(Banded(size)) for size in sizes))


def window(size: int) -> masks.Mask:
    return masks.causal() & masks.window(size)


FULL = {"mask": masks.full(), "layers": 2}

SOUND = [
    sound("decoder by hand", Reader),
    sound("grouped queries", lambda: both(Grouped)),
    sound("windows", lambda: windows(4, 4), mask=window(4), layers=2),
    sound("windows under causal", lambda: windows(4, 4)),
    sound(
        "local and global in turn",
        lambda: windows(4, 10**6, 3),
        mask=[window(4), masks.causal(), window(3)],
        layers=3,
    ),
    sound("ALiBi", lambda: both(Alibi)),
    sound("rotary positions", lambda: both(Rotary)),
    sound("bias by distance", lambda: both(Bucketed)),
    sound("softcap", lambda: both(Softcapped)),
    sound("sinks", lambda: both(Sinks)),
    sound("finite mask value", lambda: both(Finite)),
    sound(
        "prefix, declared", lambda: both(Prefixed), mask=masks.causal() | masks.prefix(3), layers=2
    ),
    sound("fused attention", lambda: both(Fused)),
    sound("top-k of the past", lambda: both(Strongest)),
    sound("softmax in float32", lambda: both(InFloat32)),
    sound("attention in bfloat16", lambda: both(InBFloat16)),
    sound("online softmax", lambda: both(Exact)),
    sound("decoder with padding", lambda: Padded(Block(), Block())),
    sound("encoder with padding", lambda: Padded(Block(Full()), Block(Full())), full=True, **FULL),
    sound("documents", lambda: Packed(Block(), Block())),
    sound("TransformerEncoder, causal", TorchDecoder),
    sound("TransformerEncoder, padding", TorchEncoder, full=True, **FULL),
    sound("headwise decoder", lambda: wide(hw.nn.Decoder(config(num_kv_heads=1)))),
    sound("headwise decoder, window", lambda: wide(hw.nn.Decoder(config(window=4)))),
    sound("headwise decoder, ALiBi", lambda: wide(hw.nn.Decoder(config(positions="alibi")))),
    sound(
        "headwise decoder, learned",
        lambda: wide(hw.nn.Decoder(config(positions="learned", max_length=256, dropout=0.1))),
    ),
    sound("headwise encoder", lambda: wide(hw.nn.Encoder(config())), full=True),
    sound("headwise encoder-decoder", lambda: wide(hw.nn.EncoderDecoder(config()))),
]
