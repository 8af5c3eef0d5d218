"""Leaks that hide from a plain look (behind a batch, a length, a dtype, another call), and sound oddities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_parts import Attention, Block, Packed, Padded, Reader

import headwise as hw

Change = Callable[[Tensor], Tensor]


def ahead(x: Tensor) -> Tensor:
    return F.pad(x[:, 1:], (0, 0, 0, 1))


class Between(nn.Module):
    """A change of the stream between the blocks of a reader."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


def reader(change: Change) -> nn.Module:
    torch.manual_seed(0)
    return Reader(Block(Attention()), Between(change), Block(Attention()))


class DropsForPadding(Attention):
    """With a padding mask it forgets the causal one."""

    def hide(self, allowed: Tensor, padding: Tensor) -> Tensor:
        return ~padding[:, None, None, :] & torch.ones_like(allowed)


class DropsForDocuments(Attention):
    """With documents it forgets the causal mask."""

    def part(self, allowed: Tensor, documents: Tensor) -> Tensor:
        return documents[:, None, :, None] == documents[:, None, None, :]


@pytest.mark.parametrize(
    ("build", "dimension"),
    [
        (lambda: Padded(Block(DropsForPadding()), Block(DropsForPadding())), "padding"),
        (lambda: Packed(Block(DropsForDocuments()), Block(DropsForDocuments())), "documents"),
    ],
)
def test_a_causal_mask_that_another_mask_replaces(build: Any, dimension: str) -> None:
    torch.manual_seed(0)
    audit = hw.audit(build())
    assert audit["future"].verdict == "clean"
    assert audit[dimension].verdict == "leak"
    assert any(key > query for query, key in audit[dimension].pairs)


CHANGES: dict[str, tuple[Change, str]] = {
    "in a batch alone": (lambda x: x + (ahead(x) if x.shape[0] > 1 else 0), "future"),
    "on one row alone": (lambda x: x + (ahead(x) if x.shape[0] == 1 else 0), "future"),
    "in float32 alone": (lambda x: x + (ahead(x) if x.dtype == torch.float32 else 0), "future"),
    "in whole chunks alone": (lambda x: x + (ahead(x) if x.shape[1] % 16 == 0 else 0), "future"),
    "beside a coarse cast": (
        lambda x: x.bfloat16().to(x) + 1e-2 * ahead(x).detach(),
        "future",
    ),
    "to the third row": (
        lambda x: torch.cat([x[:2], x[2:] + x[:1]]) if x.shape[0] > 2 else x,
        "rows",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_leak_that_is_there_now_and_then(name: str) -> None:
    change, dimension = CHANGES[name]
    audit = hw.audit(reader(change), dimensions=[dimension])
    assert audit[dimension].verdict == "leak", str(audit)
    assert audit[dimension].module == "blocks.1", str(audit)


class SeesEqual(nn.Module):
    """Each position reads what follows later copies of its own token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(60, 16), nn.Linear(16, 60)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        equal = (ids[:, :, None] == ids[:, None, :]).to(x).triu(1)
        return self.head(x + equal @ ahead(x))


def test_a_leak_between_equal_tokens() -> None:
    torch.manual_seed(0)
    assert hw.audit(SeesEqual(), dimensions=["future"])["future"].verdict == "leak"


class Remembers(nn.Module):
    """Adds the end of the text that was read before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(60, 16), nn.Linear(16, 60)
        self.last: Tensor | None = None

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        out = x if self.last is None else x + self.last
        self.last = x[:1, -1:].detach()
        return self.head(out)


def test_a_leak_from_one_call_into_the_next() -> None:
    torch.manual_seed(0)
    (leak,) = hw.audit(Remembers()).leaks
    assert (leak.dimension, leak.case) == ("rows", "calls")
    assert leak.module == ""  # its own forward keeps and adds what was read


class Unsayable(nn.Module):
    """Logits of some ids are -inf, or as low as can be, for ever."""

    def __init__(self, low: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = Reader(Block(Attention()), Block(Attention()))
        self.low = low

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.inner(ids).clone()
        logits[..., [0, 3]] = self.low
        return logits


@pytest.mark.parametrize("low", [-torch.inf, torch.finfo(torch.float32).min, -1e9])
def test_ids_that_can_never_be_said_blind_nothing(low: float) -> None:
    audit = hw.audit(Unsayable(low))
    assert audit.clean, str(audit)
    assert audit["future"].smallest < 1e-12


class Fourier(nn.Module):
    """A causal convolution by FFT over few channels, whose rounding reaches every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.in_features = channels
        self.kernel = nn.Parameter(torch.randn(64, channels) / 8)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        kernel = torch.fft.rfft(self.kernel[:n], 2 * n, 0)
        return torch.tanh(torch.fft.irfft(torch.fft.rfft(x, 2 * n, 1) * kernel, 2 * n, 1)[:, :n])


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_of_few_channels_is_no_leak(channels: int, seed: int) -> None:
    torch.manual_seed(seed)
    inputs = torch.randn(1, 19, channels)
    audit = hw.audit(Fourier(channels), inputs=inputs, dimensions=["future"], seed=seed)
    assert audit.clean, str(audit)


class Single(nn.Module):
    """Reads one text at a time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = Reader(Block(Attention()), Block(Attention()))

    def forward(self, ids: Tensor) -> Tensor:
        assert len(ids) == 1
        out: Tensor = self.inner(ids)
        return out


def test_a_model_that_reads_one_row_is_audited_on_one() -> None:
    audit = hw.audit(Single(), dimensions=["future"])
    assert audit.clean, str(audit)


def test_a_model_keeps_what_it_writes_to_itself_away_from_ours() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(60, 16), nn.Linear(16, 60)

        def forward(self, ids: Tensor) -> Tensor:
            with torch.no_grad():
                self.head.bias.add_(1.0)
            out: Tensor = self.head(self.embed(ids))
            return out

    torch.manual_seed(0)
    model = Writes().double()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    hw.audit(model, dimensions=["future"])
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_weights_are_drawn_wide_where_they_were_shut() -> None:
    class Shut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(60, 16), nn.Linear(16, 60)
            self.gate = nn.Linear(16, 16, bias=False)
            nn.init.zeros_(self.gate.weight)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            out: Tensor = self.head(x + self.gate(ahead(x)))
            return out

    torch.manual_seed(0)
    assert hw.audit(Shut(), dimensions=["future"]).clean
    wide = hw.audit(Shut(), dimensions=["future"], weights="wide")
    assert wide["future"].verdict == "leak"
    assert not hw.audit(Shut(), dimensions=["future"]).leaks
