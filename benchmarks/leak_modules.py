"""Small modules that are sound, or leak in one way; `leak_cases` says which is which."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH, VOCAB = 8, 11


class Attention(nn.Module):
    """Attention of two heads; `allowed` says who sees whom, `hidden` is what a forbidden score becomes."""

    hidden = -torch.inf

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril()

    def forward(self, x: Tensor, real: Tensor | None = None, same: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        allowed = self.allowed(x.shape[1])[None, None]
        for more in (real, same):
            if more is not None:
                allowed = allowed & more
        scores = q @ k.mT / 2
        weights = scores.masked_fill(~allowed, self.hidden).softmax(-1).nan_to_num(0.0)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Everything(Attention):
    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool)


class OneAhead(Attention):
    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril(1)


class Window(Attention):
    """The last `size` positions."""

    size = 3

    def allowed(self, n: int) -> Tensor:
        return super().allowed(n).triu(1 - self.size)


class WindowTooWide(Window):
    size = 4


class OpenFarBack(Attention):
    """Chunks of 32 positions, of which only the first has the causal mask."""

    def allowed(self, n: int) -> Tensor:
        chunk = torch.arange(n) // 32
        return super().allowed(n) | ((chunk[:, None] == chunk) & (chunk > 0))


class FiniteMask(Attention):
    """A mask of -20, with weights that training has made large: where scores are apart, it is outrun."""

    hidden = -20.0

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.qkv.weight[: 2 * WIDTH] *= 8


class OpenInTraining(Attention):
    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool) if self.training else super().allowed(n)


class Stack(nn.Module):
    """x + mix(x), then x + ffn(x), twice; the second `mix` is the given one."""

    def __init__(self, second: nn.Module | None = None, first: nn.Module | None = None) -> None:
        super().__init__()
        self.mix = nn.ModuleList([first or Attention(), second or Attention()])
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.through(x)

    def through(self, x: Tensor, **given: Tensor | None) -> Tensor:
        for mix, ffn in zip(self.mix, self.ffn, strict=True):
            x = x + mix(x, **given)
            x = x + ffn(x)
        return x


class OfIds(Stack):
    def __init__(self, second: nn.Module | None = None) -> None:
        super().__init__(second)
        self.embed, self.unembed = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.unembed(self.through(self.embed(ids)))


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, does: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.does = does

    def forward(self, x: Tensor) -> Tensor:
        return self.does(x)


def cancelling(x: Tensor) -> Tensor:
    """A sum over the past, and beside it one channel of the next position less another: their gradients cancel."""
    ahead = nn.functional.pad(x, (0, 0, 0, 1))[:, 1:]
    return x.cumsum(1) / 10 + ahead[..., :1] - ahead[..., 1:2]


def wrapped(x: Tensor) -> Tensor:
    """A shift to the right that lets the last position into the first."""
    return x.roll(1, 1)


def over_rows(x: Tensor) -> Tensor:
    """The mean of the batch."""
    return x.mean(0, keepdim=True).expand_as(x)


def by_length(x: Tensor) -> Tensor:
    """Divided by how long the text will be."""
    return x / x.shape[1]


class Experts(nn.Module):
    """Three experts; each token takes its best, or each expert the tokens that suit it best."""

    def __init__(self, of_experts: bool) -> None:
        super().__init__()
        self.of_experts = of_experts
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x)
        axis, count = (1, (x.shape[1] + 2) // 3) if self.of_experts else (2, 1)
        taken = torch.zeros_like(scores).scatter(axis, scores.topk(count, axis).indices, 1.0)
        return sum(taken[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


class Convolution(nn.Module):
    """A kernel of three, padded on the left, or on both sides."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.conv, self.pad = nn.Conv1d(WIDTH, WIDTH, 3), (2, 0) if causal else (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(nn.functional.pad(x.mT, self.pad)).mT


class Loud(nn.Module):
    """Torch's own layers, causal, on a stream far from zero, as a large bias makes it; a norm brings it back."""

    width = 64

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                self.width, 4, 2 * self.width, batch_first=True, norm_first=True
            )
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + 1e4
        for layer in self.layers:
            x = layer(x, src_mask=later, is_causal=True)
        return nn.functional.layer_norm(x, (self.width,))


class PreNorm(nn.Module):
    """Torch's own layers with their norms first, with the causal mask or without."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, norm_first=True)
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) & self.causal
        for layer in self.layers:
            x = layer(x, src_mask=later)
        return x


class Normed(Stack):
    """Batch norm over rows and positions, which training computes anew."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.through(self.norm(x.mT).mT)


class Asking(Attention):
    asked = False

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool) if self.asked else super().allowed(n)


class Asked(Stack):
    """Loses its mask where the weights are asked for."""

    def forward(self, x: Tensor, need_weights: bool = False) -> Tensor:
        self.mix[1].asked = need_weights
        return self.through(x)


class Packed(Stack):
    """Packed texts; the second layer forgets their borders, or both hold them."""

    def __init__(self, sound: bool) -> None:
        super().__init__()
        self.sound = sound

    def forward(self, x: Tensor, documents: Tensor | None = None) -> Tensor:
        if documents is None:
            return self.through(x)
        same = (documents[:, :, None] == documents[:, None])[:, None]
        x = x + self.mix[0](x, same=same)
        return x + self.mix[1](x, same=same if self.sound else None)


class LeftPadded(Stack):
    """Takes a mask of 1s and 0s, and reads it as lengths: right for padding on the right alone."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is None:
            return self.through(x)
        real = torch.arange(x.shape[1]) < attention_mask.sum(-1, keepdim=True)
        return self.through(x, real=real[:, None, None])


class Translator(Stack):
    """A decoder whose cross-attention minds the padding of its encoder, or does not."""

    def __init__(self, sound: bool) -> None:
        super().__init__()
        self.sound, self.cross = sound, nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        memory = torch.ones(len(x), 3, WIDTH, dtype=x.dtype) if memory is None else memory
        hidden = memory_key_padding_mask if self.sound else None
        return self.through(x) + self.cross(x, memory, memory, key_padding_mask=hidden)[0]


class Encoding(Stack):
    """An encoder told of padding by lengths."""

    clean = True
    """Whether what comes out at padding is zero."""

    def __init__(self, second: nn.Module | None = None, minds: bool = True) -> None:
        super().__init__(second or Everything(), Everything())
        self.minds = minds

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2], dtype=torch.bool)
        if lengths is not None:
            real = torch.arange(x.shape[1]) < lengths[:, None]
        out = self.read(x, real)
        return out * real[..., None] if self.clean else out

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        return self.through(x, real=real[:, None, None] if self.minds else None)


class Unclean(Encoding):
    clean = False


class Convolving(Encoding):
    """Two convolutions; padding is not made zero between them."""

    def __init__(self, between: bool) -> None:
        super().__init__()
        self.between, self.convs = between, nn.ModuleList(Convolution(False) for _ in range(2))

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        x = self.convs[0](x * real[..., None]).relu()
        return self.convs[1](x * real[..., None] if self.between else x)


class Pooling(Encoding):
    """The mean of all positions, padding and all, added to each."""

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        x = super().read(x, real)
        return x + x.mean(1, keepdim=True)


class Rows(Encoding):
    """The mean of the batch added to each row."""

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        return super().read(x, real) + x.mean((0, 1))
