from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headwise.names import ConfigError
from headwise.nn import FeedForward

BY_HAND = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}
GATE = {"swiglu": "silu", "geglu": "gelu"}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [*BY_HAND, *GATE])
def test_by_hand(activation, bias):
    ffn = FeedForward(6, 10, activation, bias).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    w, b = ffn.w_in.weight, ffn.w_in.bias if bias else torch.zeros(ffn.w_in.out_features)
    hidden = BY_HAND[GATE.get(activation, activation)](x @ w[:10].T + b[:10])
    if activation in GATE:
        hidden = hidden * (x @ w[10:].T + b[10:])
    expected = hidden @ ffn.w_out.weight.T + (ffn.w_out.bias if bias else 0)
    assert_close(ffn(x), expected)
    assert (ffn.w_in.bias is None) == (not bias)
    assert (ffn.w_out.bias is None) == (not bias)


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_positions_do_not_see_each_other(activation):
    ffn = FeedForward(6, 10, activation)
    x = torch.randn(2, 5, 6)
    one_by_one = torch.stack([ffn(x[:, i]) for i in range(5)], dim=1)
    assert_close(ffn(x), one_by_one)
    changed = x.clone()
    changed[:, 2] += 1
    same = (ffn(changed) == ffn(x)).all(-1)
    assert same[:, [0, 1, 3, 4]].all()
    assert not same[:, 2].any()


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_gradcheck(activation):
    ffn = FeedForward(4, 6, activation).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*ffn.named_parameters(), strict=True)

    def call(x, *values):
        return torch.func.functional_call(ffn, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values))


@pytest.mark.usefixtures("unchecked")
def test_unknown_activation_is_named():
    with pytest.raises(ConfigError, match="activation='mish' is not known; use one of relu"):
        FeedForward(4, 8, "mish")
