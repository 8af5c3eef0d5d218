"""The cases that the audit and pangolinn are tried on, side by side: which module, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

import leak_modules as of
from headwise import masks


@dataclass(frozen=True)
class Case:
    """One module.

    Attributes:
        name: what it is, or what is wrong with it.
        build: makes it, weights and all.
        sound: nothing is wrong.
        encoder: it may see everything but padding (its forward takes `lengths`); else it is causal.
        ids: it reads token ids.
        width: of its vectors.
        audit: what `hw.audit` is told beside the module.
    """

    name: str
    build: Callable[[], nn.Module]
    sound: bool = False
    encoder: bool = False
    ids: bool = False
    width: int = of.WIDTH
    audit: Mapping[str, Any] = field(default_factory=dict)


def sound(name: str, build: Callable[[], nn.Module], **more: Any) -> Case:
    return Case(name, build, sound=True, **more)


def encoder(name: str, build: Callable[[], nn.Module], **more: Any) -> Case:
    return Case(name, build, encoder=True, audit={"mask": masks.full(), "layers": 2}, **more)


def cancelling() -> nn.Module:
    return of.Stack(nn.Identity(), of.Apply(of.cancelling))


def faint() -> nn.Module:
    return of.Stack(of.Apply(lambda x: 1e-9 * x.sum(1, keepdim=True)))


NARROW = {"mask": masks.causal() & masks.window(3), "layers": 2}
STRICT = {"mask": masks.causal() & ~masks.window(1), "layers": 1}

FAULTS = [
    Case("no causal mask", lambda: of.Stack(of.Everything())),
    Case("sees one position ahead", lambda: of.Stack(of.OneAhead())),
    Case("convolution padded on both sides", lambda: of.Stack(of.Convolution(False))),
    Case("mean over the text", lambda: of.Stack(of.Apply(lambda x: x - x.mean(1, keepdim=True)))),
    Case("no causal mask, on token ids", lambda: of.OfIds(of.Everything()), ids=True),
    Case("experts choose among all tokens", lambda: of.Stack(of.Experts(True))),
    Case("finite mask outrun by large scores", lambda: of.Stack(of.FiniteMask())),
    Case("no causal mask, norms first", lambda: of.PreNorm(False)),
    Case("a leak whose gradients sum to zero", cancelling),
    Case("a leak of a billionth", faint),
    Case("the first position sees the last", lambda: of.Stack(of.Apply(of.wrapped))),
    Case("no mask after position 32", lambda: of.Stack(of.OpenFarBack()), audit={"length": 48}),
    Case("no mask in training", lambda: of.Stack(of.OpenInTraining())),
    Case("no mask where weights are asked for", lambda: of.Asked(of.Asking())),
    Case("window one too wide", lambda: of.Stack(of.WindowTooWide(), of.Window()), audit=NARROW),
    Case("sees itself where it must not", lambda: of.Apply(lambda x: x.cumsum(1)), audit=STRICT),
    Case("mean over the batch", lambda: of.Stack(of.Apply(of.over_rows))),
    Case("batch norm in training", lambda: of.Normed()),
    Case("padding on the left is seen", lambda: of.LeftPadded()),
    Case("packed documents see each other", lambda: of.Packed(False)),
    Case("padding of the encoder is seen", lambda: of.Translator(False)),
    Case("divided by the length of the text", lambda: of.Stack(of.Apply(of.by_length))),
    encoder("padding is seen", lambda: of.Encoding(minds=False)),
    encoder("padding is not zero between convolutions", lambda: of.Convolving(False)),
    encoder("padding is in the mean", lambda: of.Pooling()),
    encoder("mean over the batch, in an encoder", lambda: of.Rows()),
]

SOUND = [
    sound("causal attention", lambda: of.Stack()),
    sound("causal attention on token ids", lambda: of.OfIds(), ids=True),
    sound("causal attention, norms first", lambda: of.PreNorm(True)),
    sound("attention in windows", lambda: of.Stack(of.Window(), of.Window()), audit=NARROW),
    sound("recurrence", lambda: of.Recurrent()),
    sound("causal convolution", lambda: of.Stack(of.Convolution(True))),
    sound("experts, each token its best", lambda: of.Stack(of.Experts(False))),
    sound("each position by itself", lambda: of.Stack(nn.Identity(), nn.Identity())),
    sound("a stream far from zero", lambda: of.Loud(), width=of.Loud.width),
    sound("packed documents", lambda: of.Packed(True)),
    sound("cross-attention", lambda: of.Translator(True)),
    encoder("encoder", lambda: of.Encoding(), sound=True),
    encoder("encoder, padding not set to zero", lambda: of.Unclean(), sound=True),
    encoder("convolutions with padding at zero", lambda: of.Convolving(True), sound=True),
]
