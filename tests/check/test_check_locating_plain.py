"""Planted faults in plain torch: convolutions, norms, pooled vectors, scores with modules of their own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from locating_help import LENGTH, change_output, future_entry, spread
from torch import Tensor, nn

from headwise.check.places.locating import Entry


class Plain(nn.Module):
    """A causal model in plain torch, with room for faults."""

    def __init__(self, mixer: nn.Module, fault: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.first = nn.Linear(16, 16)
        self.mixer = mixer
        self.head = nn.Linear(16, 97)
        self.fault = fault

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + self.first(self.norms[0](x))
        if self.fault == "roll":
            x = torch.roll(x, -1, 1)
        pooled = x.mean(1)
        if self.fault == "pooled":
            return self.head(x + self.mixer(x, pooled))
        return self.head(x + self.mixer(self.norms[1](x)))


class Conv(nn.Module):
    """A convolution over time, padded left (causal) or on both sides."""

    def __init__(self, left: int, right: int, inside: bool = False) -> None:
        super().__init__()
        self.pad = (left, right)
        self.conv = nn.Conv1d(16, 16, 3, padding=1 if inside else 0)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mT if self.conv.padding[0] else F.pad(x.mT, self.pad)
        return self.conv(x).mT


class Film(nn.Module):
    """Makes use of a pooled vector."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(16, 16)

    def forward(self, x: Tensor, pooled: Tensor) -> Tensor:
        return x * self.scale(pooled)[:, None]


class OverTime(nn.Module):
    """nn.BatchNorm1d over [batch, channel, time]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class Scores(nn.Module):
    """Attention with modules for its scores and its softmax; masks between the two."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.scores = nn.Bilinear(16, 16, 1)
        self.softmax = nn.Softmax(-1)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        pairs = x[:, :, None].expand(-1, n, n, -1), x[:, None].expand(-1, n, n, -1)
        scores = self.scores(*(p.contiguous() for p in pairs)).squeeze(-1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return self.drop(self.softmax(scores)) @ x


PLAIN: list[tuple[nn.Module, str, str | None]] = [
    (nn.Identity(), "", None),
    (Conv(2, 0), "", None),
    (Scores(True), "", None),
    (nn.Identity(), "roll", ""),
    (Conv(1, 1), "", "mixer.conv"),
    (Conv(0, 0, inside=True), "", "mixer.conv"),
    (Film(), "pooled", "mixer"),
    (Scores(False), "", "mixer"),
    (Conv(2, 0), "roll", ""),
]


@pytest.mark.parametrize(
    ("mixer", "fault", "path"),
    PLAIN,
    ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else str(x),
)
def test_plain_models(mixer, fault, path):
    torch.manual_seed(0)
    model = spread(Plain(mixer, fault))
    found = future_entry(model)
    assert (None if found is None else found.module) == path


@pytest.mark.parametrize("batch", [1, 2])
def test_batch_norm_over_time_in_training(batch):
    torch.manual_seed(0)
    model = spread(Plain(OverTime()))
    assert future_entry(model, batch=batch) is None
    assert future_entry(model.train(), batch=batch) == Entry("mixer.norm", "BatchNorm1d")


class Told(nn.Module):
    """torch's own encoder with a causal mask, which the layers from `without` on are not told."""

    def __init__(self, batch_first: bool, without: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=batch_first)
        self.stack = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.batch_first, self.without = batch_first, without

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = x if self.batch_first else x.transpose(0, 1)
        for i, layer in enumerate(self.stack.layers):
            x = layer(x, None if i >= self.without else mask)
        return x if self.batch_first else x.transpose(0, 1)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_of_torch(batch_first, batch):
    torch.manual_seed(0)
    told = spread(Plain(Told(batch_first, without=3)))
    assert future_entry(told, batch=batch) is None
    torch.manual_seed(0)
    untold = spread(Plain(Told(batch_first, without=1)))
    found = future_entry(untold, batch=batch)
    assert found == Entry("mixer.stack.layers.1.self_attn", "MultiheadAttention")


def test_a_first_token_far_larger_than_all_others_hides_nothing():
    torch.manual_seed(0)
    model = spread(Plain(nn.Identity()))
    larger = torch.ones(LENGTH, 1, dtype=torch.float64)
    larger[0] = 1e9
    change_output(model, "first", lambda x: larger * x + 1e-3 * torch.roll(x, -1, 1))
    assert future_entry(model) == Entry("first", "Linear")


class Raw(nn.Module):
    """Scores before any mask."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ x.mT


class Late(nn.Module):
    """Masks what Raw gives, and leaks after that."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = Raw()

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        z = self.raw(x).masked_fill(hidden, float("-inf")).softmax(-1) @ x
        return z + torch.roll(z, -1, 1)


def test_scores_that_are_masked_later_are_not_where_it_enters():
    torch.manual_seed(0)
    assert future_entry(spread(Plain(Late()))) == Entry("mixer", "Late")
