"""Sound recurrences, scans, convolutions and linear attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from zoo_parts import HEADS, WIDTH, Attention, Block, Reader, sound


class CausalConv(nn.Module):
    def __init__(self, dilation: int = 1) -> None:
        super().__init__()
        self.before = 2 * dilation
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x.mT, (self.before, 0))).mT


class CutConv(nn.Module):
    """Padded on both sides, the end cut off: Mamba's way."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.mT)[..., : x.shape[1]].mT


class GatedConv(nn.Module):
    """A layer of WaveNet."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.filter, self.gate = CausalConv(dilation), CausalConv(dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(x).tanh() * self.gate(x).sigmoid()


class LongConv(nn.Module):
    """A convolution by FFT padded to twice the length: rounding is all that goes round."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(WIDTH, 512) / 4)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        product = torch.fft.rfft(x.mT, n=2 * n) * torch.fft.rfft(self.kernel[:, :n], n=2 * n)
        return self.out(torch.fft.irfft(product, n=2 * n)[..., :n].mT)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn = kind(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class TimeMix(nn.Module):
    """RWKV's time mixing, token shift and decay, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value, self.gate = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.decay, self.bonus = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))
        self.mix = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        mixed = x * self.mix + before * (1 - self.mix)
        k, v = self.key(mixed).exp(), self.value(mixed)
        top, low, out = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
        for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
            now = key * self.bonus.exp()
            out.append((top + now * value) / (low + now))
            top = top * (-self.decay.exp()).exp() + key * value
            low = low * (-self.decay.exp()).exp() + key
        return torch.stack(out, 1) * self.gate(mixed).sigmoid()


class Selective(nn.Module):
    """A selective scan: Mamba's recurrence by hand."""

    def __init__(self, state: int = 5) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 2 * WIDTH)
        self.conv = CutConv()
        self.rates = nn.Linear(WIDTH, 2 * state + WIDTH)
        self.log_a = nn.Parameter(torch.rand(WIDTH, state))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.state = state

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.inner(x).chunk(2, -1)
        x = F.silu(self.conv(x))
        b, c, step = self.rates(x).split((self.state, self.state, WIDTH), -1)
        step = F.softplus(step)
        state, out = x.new_zeros(x.shape[0], WIDTH, self.state), []
        for i in range(x.shape[1]):
            kept = (-self.log_a.exp() * step[:, i, :, None]).exp()
            state = state * kept + (step[:, i] * x[:, i])[..., None] * b[:, i, None]
            out.append((state * c[:, i, None]).sum(-1))
        return self.out(torch.stack(out, 1) * F.silu(gate))


class Linear(Attention):
    """Linear attention by running sums."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        q, k, v = self.project(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        top = torch.einsum("bhnd,bhnde->bhne", q, sums)
        low = torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2))
        return self.out(self.joined(top / low[..., None]))


class Chunked(Attention):
    """The same in chunks of four: a triangle within, a state between."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        q, k, v = self.project(x)
        k = F.elu(k) + 1
        state, out = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), []
        for start in range(0, x.shape[1], 4):
            here = slice(start, start + 4)
            q_, k_, v_ = q[:, :, here], k[:, :, here], v[:, :, here]
            out.append((q_ @ k_.mT).tril() @ v_ + q_ @ state)
            state = state + k_.mT @ v_
        return self.out(self.joined(torch.cat(out, 2)))


class Retention(Attention):
    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        n = scores.shape[-1]
        back = (torch.arange(n)[:, None] - torch.arange(n)).clamp_min(0)
        decay = 1 - 2.0 ** -torch.arange(2.0, 2 + HEADS)
        return scores * allowed * decay.to(scores)[:, None, None] ** back


class RunningMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cummax(1).values


class RunningMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


class Shift(nn.Module):
    """The position before, by a roll whose wrapped place is emptied."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        before = torch.roll(x, 1, 1)
        before = torch.cat((torch.zeros_like(x[:, :1]), before[:, 1:]), 1)
        return self.value(self.key((x + before) / 2).relu() ** 2)


def both(*mixes: nn.Module) -> Reader:
    return Reader(*(Block(mix) for mix in mixes))


SOUND = [
    sound("convolution padded before", lambda: both(CausalConv(), CausalConv())),
    sound("convolution cut at the end", lambda: both(CutConv(), CutConv())),
    sound("dilated convolutions", lambda: both(*(GatedConv(2**i) for i in range(3)))),
    sound("FFT padded to twice the length", lambda: both(LongConv(), LongConv())),
    sound("GRU", lambda: both(Recurrent(nn.GRU), Recurrent(nn.GRU))),
    sound("LSTM", lambda: both(Recurrent(nn.LSTM), Recurrent(nn.LSTM))),
    sound("RWKV by hand", lambda: both(TimeMix(), TimeMix())),
    sound("selective scan", lambda: both(Selective(), Selective())),
    sound("linear attention", lambda: both(Linear(), Linear())),
    sound("chunked linear attention", lambda: both(Chunked(), Chunked())),
    sound("retention", lambda: both(Retention(), Retention())),
    sound("running maximum", lambda: both(RunningMax(), RunningMax())),
    sound("running mean", lambda: both(RunningMean(), RunningMean())),
    sound("token shift", lambda: Reader(Block(ffn=Shift()), Block(ffn=Shift()))),
    sound("recurrence and attention", lambda: both(Recurrent(nn.GRU), Attention(), Selective())),
]
