"""Faults of batches: padding, packed documents, what an encoder's padding says to a decoder, train against eval."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from zoo_parts import (
    HEADS,
    VOCAB,
    WIDTH,
    Attention,
    Block,
    Full,
    Packed,
    Padded,
    Reader,
    causal_mask,
    config,
    fault,
    wide,
)

import headwise as hw
from headwise.core import masks


class IgnoresPadding(Full):
    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        return allowed.expand(padded.shape[0], 1, -1, -1)


class CausalIgnoresPadding(Attention):
    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        return allowed.expand(padded.shape[0], 1, -1, -1)


class ByLength(Attention):
    """Padding taken to be on the right, wherever it is."""

    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        lengths = (~padded).sum(1)
        real = torch.arange(padded.shape[1]) < lengths[:, None]
        return allowed & real[:, None, None, :]


class PrefixOverPadding(Attention):
    """The first three positions are or-ed in after the padding was hidden."""

    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        return super().hide(allowed, padded) | (torch.arange(allowed.shape[-1]) < 3)


class InvertedPadding(Full):
    def hide(self, allowed: Tensor, padded: Tensor) -> Tensor:
        return allowed & padded[:, None, None, :]


class PooledPadding(Padded):
    """The mean over all positions added, padding among them."""

    def read(self, x: Tensor, **given: Any) -> Tensor:
        return super().read(x + x.mean(1, keepdim=True), **given)


class CountsPadding(Full):
    """Scores scaled by the length of the row, padding counted."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x)
        return q * torch.tensor(float(x.shape[1])).log(), k, v


class IgnoresDocuments(Attention):
    def part(self, allowed: Tensor, documents: Tensor) -> Tensor:
        return allowed


class NextDocument(Attention):
    """The borders one too late: the first token of a document is seen with the one before."""

    def part(self, allowed: Tensor, documents: Tensor) -> Tensor:
        late = torch.cat((documents[:, :1], documents[:, :-1]), 1)
        return super().part(allowed, late)


class DecoderBlock(nn.Module):
    def __init__(self, hides: bool) -> None:
        super().__init__()
        self.hides = hides
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.cross = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor, padded: Tensor | None) -> Tensor:
        y = self.norm1(x)
        x = x + self.mix(y, y, y, attn_mask=causal_mask(x.shape[1]).to(x), need_weights=False)[0]
        hidden = padded if self.hides else None
        y = self.norm2(x)
        return x + self.cross(y, memory, memory, hidden, need_weights=False)[0]


class Translator(nn.Module):
    """An encoder and a decoder by hand; `hides` says which decoder layers hide the source's padding."""

    def __init__(self, hides: tuple[bool, ...], encoder_hides: bool = True) -> None:
        super().__init__()
        self.encoder_hides = encoder_hides
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.encoder = nn.ModuleList(Block(Full()) for _ in range(2))
        self.decoder = nn.ModuleList(DecoderBlock(x) for x in hides)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(
        self, source_ids: Tensor, target_ids: Tensor, source_padding_mask: Tensor | None = None
    ) -> Tensor:
        memory, hidden = self.embed(source_ids), source_padding_mask
        for block in self.encoder:
            memory = block(memory, padded=hidden if self.encoder_hides else None)
        x = self.embed(target_ids)
        for block in self.decoder:
            x = block(x, memory, source_padding_mask)
        return self.head(x)


class TorchTranslator(nn.Module):
    """torch.nn.Transformer, called without memory_key_padding_mask unless told."""

    def __init__(self, hides: bool = False) -> None:
        super().__init__()
        self.hides = hides
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.inner = nn.Transformer(WIDTH, HEADS, 2, 2, 40, 0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(
        self, source_ids: Tensor, target_ids: Tensor, source_padding_mask: Tensor | None = None
    ) -> Tensor:
        x = self.inner(
            self.embed(source_ids),
            self.embed(target_ids),
            tgt_mask=causal_mask(target_ids.shape[1]).to(self.embed.weight),
            src_key_padding_mask=source_padding_mask,
            memory_key_padding_mask=source_padding_mask if self.hides else None,
        )
        return self.head(x)


class MaskedWhileTraining(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return super().weigh(scores, allowed if self.training else torch.ones_like(allowed))


class WiderWhileTraining(Attention):
    def allowed(self, n: int) -> Tensor:
        return super().allowed(n).triu(-6 if self.training else -3)


class OpenAttention(hw.nn.MultiHeadAttention):
    """A block of headwise that is handed a mask and leaves it."""

    def forward(self, x: Tensor, mask: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        return super().forward(x, None, *args, **kwargs)


def headwise_open() -> nn.Module:
    model = wide(hw.nn.Decoder(config(3)))
    model.blocks[1].attention = wide(OpenAttention(WIDTH, HEADS))
    return model


def headwise_hooked() -> nn.Module:
    model = wide(hw.nn.Decoder(config(3)))
    model.blocks[1].ffn.register_forward_hook(lambda module, args, out: out + out.roll(-1, 1))
    return model


def padded(*mixes: nn.Module) -> Padded:
    return Padded(*(Block(mix) for mix in mixes))


FULL = {"mask": masks.full(), "layers": 2}
PREFIX = {"mask": masks.causal() | masks.prefix(3), "layers": 2}

FAULTS = [
    fault(
        "padding ignored",
        lambda: padded(Full(), IgnoresPadding()),
        "padding",
        "blocks.1.attention",
        **FULL,
    ),
    fault(
        "padding on the left ignored by a decoder",
        lambda: padded(Attention(), CausalIgnoresPadding()),
        "padding",
        "blocks.1.attention",
    ),
    fault(
        "padding taken to be on the right",
        lambda: padded(Attention(), ByLength()),
        "padding",
        "blocks.1.attention",
    ),
    fault(
        "prefix that unmasks padding",
        lambda: padded(PrefixOverPadding(), PrefixOverPadding()),
        "padding",
        "blocks.0.attention",
        **PREFIX,
    ),
    fault(
        "padding mask inverted",
        lambda: padded(Full(), InvertedPadding()),
        "padding",
        "blocks.1.attention",
        **FULL,
    ),
    fault(
        "mean over padding",
        lambda: PooledPadding(Block(Full()), Block(Full())),
        "padding",
        "",
        **FULL,
    ),
    fault(
        "scores scaled by the padded length",
        lambda: padded(Full(), CountsPadding()),
        "unpadded",
        "blocks.1.attention",
        **FULL,
    ),
    fault(
        "documents ignored in one layer",
        lambda: Packed(Block(), Block(IgnoresDocuments())),
        "documents",
        "blocks.1.attention",
    ),
    fault(
        "document borders one too late",
        lambda: Packed(Block(), Block(NextDocument())),
        "documents",
        "blocks.1.attention",
    ),
    fault(
        "padding of the source seen in one layer",
        lambda: Translator((True, False)),
        "memory",
        "decoder.1.cross",
    ),
    fault(
        "padding of the source seen in the encoder",
        lambda: Translator((True, True), encoder_hides=False),
        "memory",
        "encoder.0.attention",
    ),
    fault(
        "memory_key_padding_mask forgotten",
        TorchTranslator,
        "memory",
        "inner.decoder.layers.0.multihead_attn",
    ),
    fault(
        "masked while training alone",
        lambda: Reader(Block(), Block(MaskedWhileTraining())),
        "training",
        "blocks.1.attention",
    ),
    fault(
        "masked while training alone, future",
        lambda: Reader(Block(), Block(MaskedWhileTraining())),
        "future",
        "blocks.1.attention",
    ),
    fault(
        "wider window while training",
        lambda: Reader(Block(), Block(WiderWhileTraining())),
        "training",
        "blocks.1.attention",
    ),
    fault("headwise block that leaves its mask", headwise_open, "future", "blocks.1.attention"),
    fault("hook that adds the next position", headwise_hooked, "future", "blocks.1.ffn"),
]
