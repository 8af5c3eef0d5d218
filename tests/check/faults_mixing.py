"""Faults outside the mask: norms, shifts, convolutions, recurrences and sums that reach over time or rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from zoo_parts import HEADS, WIDTH, Attention, Block, Reader, fault


class OverTime(nn.Module):
    """A norm of torch that reads [batch, channel, position], and so takes its mean over time."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class BlockMean(nn.Module):
    """Subtracts the mean of each four positions."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        whole = F.pad(x, (0, 0, 0, -n % 4))
        means = whole.unflatten(1, (-1, 4)).mean(2, keepdim=True).expand(-1, -1, 4, -1)
        return x - means.flatten(1, 2)[:, :n]


class Remembering(nn.Module):
    """Subtracts a running mean that is moved in eval mode too, by the text it is subtracted from."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1))
        return x - self.mean


class ShiftedFeedForward(nn.Module):
    """RWKV's channel mixing; `by` is 1 where it looks one back."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by
        self.key = nn.Linear(WIDTH, 2 * WIDTH)
        self.value = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        mixed = (x + torch.roll(x, self.by, 1)) / 2
        return self.value(self.key(mixed).relu() ** 2)


class Conv(nn.Module):
    def __init__(self, padding: int = 1, kernel: int = 3, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, kernel, padding=padding, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.mT).mT


class Circular(nn.Module):
    """A long convolution by FFT, not padded: the end wraps round to the start."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(WIDTH, 64) / 4)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        product = torch.fft.rfft(x.mT) * torch.fft.rfft(self.kernel[:, :n], n=n)
        return self.out(torch.fft.irfft(product, n=n).mT)


class Bidirectional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Carried(nn.Module):
    """A recurrence whose state goes on from one row of the batch to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x.flatten(0, 1)[None])[0].view_as(x)


class RowsIntoHeads(Attention):
    """Split into heads by a view that takes rows for heads."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, n = x.shape[:2]
        packed = self.qkv(x).transpose(0, 1).reshape(n, b, 3, self.heads, -1)
        q, k, v = packed.permute(2, 3, 1, 0, 4).reshape(3, b, self.heads, n, -1)
        return q, k, v


class LookAhead(Block):
    """A little of the next position, `weight` of it."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        ahead = F.pad(x, (0, 0, 0, 1))[:, 1:]
        return super().forward(x, **given) + self.weight * ahead


class Gated(Block):
    """Attention over everything behind a gate that training has all but closed."""

    def __init__(self) -> None:
        super().__init__()
        self.summary = nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Parameter(torch.tensor(-27.6))

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        x = super().forward(x, **given)
        return x + self.gate.sigmoid() * self.summary(x.mean(1, keepdim=True))


class Pooled(Reader):
    """The mean of the text added to every position, by the model itself."""

    def read(self, x: Tensor, **given: Any) -> Tensor:
        return super().read(x + x.mean(1, keepdim=True), **given)


class Labels(Reader):
    """The embedding of the next token added, as a shift of the labels done twice does."""

    def start(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        return super().start(ids, places) + 0.1 * self.embed(ids.roll(-1, 1))


class LinearOfAll(nn.Module):
    """Linear attention, a running sum divided by the sum over the whole text."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        total = torch.einsum("bhnd,bhd->bhn", q, k.sum(2))
        z = torch.einsum("bhnd,bhnde->bhne", q, sums) / total[..., None]
        return z.transpose(1, 2).flatten(2)


class Reversed(nn.Module):
    """A decay scanned from the wrong end."""

    def forward(self, x: Tensor) -> Tensor:
        state, out = torch.zeros_like(x[:, 0]), []
        for step in x.flip(1).unbind(1):
            state = 0.8 * state + step
            out.append(state)
        return torch.stack(out[::-1], 1)


class Squeezed(nn.Module):
    """Each position scaled by a gate from the mean of all (squeeze and excitation)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = FeedForwardGate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.inner(x.mean(1, keepdim=True))


class FeedForwardGate(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, WIDTH), nn.Sigmoid())


def in_second(**parts: nn.Module) -> Reader:
    return Reader(Block(), Block(**parts))


FAULTS = [
    fault("block mean", lambda: in_second(norm=BlockMean()), "future", "blocks.1.norm1", length=18),
    fault(
        "instance norm over time",
        lambda: in_second(norm=OverTime(nn.InstanceNorm1d(WIDTH))),
        "future",
        "blocks.1.norm1.norm",
    ),
    fault(
        "group norm over time",
        lambda: in_second(norm=OverTime(nn.GroupNorm(4, WIDTH))),
        "future",
        "blocks.1.norm1.norm",
    ),
    fault(
        "batch norm, rows",
        lambda: in_second(norm=OverTime(nn.BatchNorm1d(WIDTH))),
        "rows",
        "blocks.1.norm1.norm",
    ),
    fault(
        "batch norm, future",
        lambda: in_second(norm=OverTime(nn.BatchNorm1d(WIDTH))),
        "future",
        "blocks.1.norm1.norm",
    ),
    fault(
        "running mean moved in eval",
        lambda: in_second(norm=Remembering()),
        "rows",
        "blocks.1.norm1",
    ),
    fault(
        "roll the wrong way",
        lambda: in_second(ffn=ShiftedFeedForward(-1)),
        "future",
        "blocks.1.ffn",
    ),
    fault(
        "roll that wraps round",
        lambda: in_second(ffn=ShiftedFeedForward(1)),
        "future",
        "blocks.1.ffn",
    ),
    fault("labels shifted twice", Labels, "future", ""),
    fault("mean of the text added", Pooled, "future", ""),
    fault(
        "convolution padded both sides",
        lambda: in_second(mix=Conv()),
        "future",
        "blocks.1.mix.conv",
    ),
    fault(
        "dilated convolution padded both sides",
        lambda: in_second(mix=Conv(4, 3, 4)),
        "future",
        "blocks.1.mix.conv",
    ),
    fault("FFT that wraps round", lambda: in_second(mix=Circular()), "future", "blocks.1.mix"),
    fault(
        "bidirectional recurrence",
        lambda: in_second(mix=Bidirectional()),
        "future",
        "blocks.1.mix.rnn",
    ),
    fault("scan from the wrong end", lambda: in_second(mix=Reversed()), "future", "blocks.1.mix"),
    fault(
        "state carried between rows", lambda: in_second(mix=Carried()), "rows", "blocks.1.mix.rnn"
    ),
    fault(
        "rows taken for heads", lambda: in_second(mix=RowsIntoHeads()), "rows", "blocks.1.attention"
    ),
    fault(
        "sum divided by the total", lambda: in_second(mix=LinearOfAll()), "future", "blocks.1.mix"
    ),
    fault("squeeze and excitation", lambda: in_second(ffn=Squeezed()), "future", "blocks.1.ffn"),
    fault("leak of weight 1e-7", lambda: Reader(Block(), LookAhead(1e-7)), "future", "blocks.1"),
    fault("leak of weight 1e-12", lambda: Reader(Block(), LookAhead(1e-12)), "future", "blocks.1"),
    fault("gate almost closed", lambda: Reader(Block(), Gated()), "future", "blocks.1"),
]
