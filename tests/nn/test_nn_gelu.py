from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headwise.nn import gelu
from headwise.nn.gelu import gelu_tanh


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(gelu, "_FEW", 0)


def numbers(dtype):
    tails = torch.tensor([0.0, -0.0, 12.0, -12.0, 300.0, -300.0, 6e4, -6e4, 1e-7, -1e-7])
    return torch.cat([torch.linspace(-12, 12, 4001), tails]).to(dtype)


def both(x, function):
    x = x.clone().requires_grad_()
    y = function(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    return y.detach(), slope


def test_it_is_taken():
    x = torch.randn(4, 4, requires_grad=True)
    assert "_Gelu" in type(gelu_tanh(x).grad_fn).__name__


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_outputs_and_gradients_are_off_by_a_rounding(dtype):
    x = numbers(dtype)
    exact = both(x.double(), lambda y: F.gelu(y, approximate="tanh"))
    came = both(x, gelu_tanh)
    unit = torch.finfo(dtype).eps / 2
    for part, right in zip(came, exact, strict=True):
        assert part.dtype is dtype
        off = (part.double() - right).abs()
        assert (off <= 1.01 * unit * right.abs() + 2e-6).all()
    assert_close(gelu_tanh(x), came[0], atol=0, rtol=0)


def test_no_number_stays_none():
    assert gelu_tanh(torch.tensor([float("nan"), 1.0])).isnan().tolist() == [True, False]


def test_gradients_of_gradients():
    x = torch.randn(5, requires_grad=True)
    (slope,) = torch.autograd.grad(gelu_tanh(x).sum(), x, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), x)
    own = F.gelu(x, approximate="tanh")
    (wanted,) = torch.autograd.grad(own.sum(), x, create_graph=True)
    assert_close(curve, torch.autograd.grad(wanted.sum(), x)[0])


def test_under_vmap_and_jvp():
    x, t = torch.randn(3, 5), torch.randn(3, 5)
    own = lambda y: F.gelu(y, approximate="tanh")  # noqa: E731
    assert_close(torch.func.vmap(gelu_tanh)(x), own(x))
    assert_close(torch.func.jvp(gelu_tanh, (x,), (t,)), torch.func.jvp(own, (x,), (t,)))
    slope = torch.func.vmap(torch.func.grad(lambda y: gelu_tanh(y).sum()))(x)
    assert_close(slope, both(x, own)[1])
