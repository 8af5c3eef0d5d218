from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from headwise.core import masks
from headwise.core.taps import Tap, tapped
from headwise.names import ConfigError, ShapeError
from headwise.nn import LayerCache, MultiHeadAttention, place, rotary, rotate

HEADS = [(6, 6), (6, 2), (6, 1)]


def by_loop(module, x, allowed, memory=None, table=None):
    """Each head by itself, in the open, from the module's weights."""
    memory = x if memory is None else memory
    h, kv, d = module.num_heads, module.num_kv_heads, module.head_dim
    weight, bias = module.w_qkv.weight, module.w_qkv.bias
    out = 0 if module.w_o.bias is None else module.w_o.bias
    for head in range(h):
        group = head // (h // kv)
        rows = [slice(i * d, i * d + d) for i in (head, h + group, h + kv + group)]
        q, k, v = (
            source @ weight[r].T + (0 if bias is None else bias[r])
            for source, r in zip((x, memory, memory), rows, strict=True)
        )
        if table is not None:
            q, k = (rotate(y[:, None], table)[:, 0] for y in (q, k))
        scores = q @ k.transpose(1, 2) / math.sqrt(d)
        pattern = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        out = out + pattern @ v @ module.w_o.weight[:, head * d : head * d + d].T
    return out


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("head_dim", [None, 10])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_batched_is_the_loop_over_heads(heads, kv_heads, head_dim, bias):
    module = MultiHeadAttention(24, heads, kv_heads, head_dim, bias)
    x = torch.randn(2, 9, 24)
    mask = masks.causal()
    table = rotary(place(9, 9).queries, module.head_dim)
    for turned in (None, table):
        got = module(x, mask, rotary=turned)
        assert_close(
            got, by_loop(module, x, mask.dense(9, 9)[:, 0], table=turned), atol=1e-6, rtol=0
        )


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_cross_attention_is_the_loop_over_heads(heads, kv_heads):
    module = MultiHeadAttention(24, heads, kv_heads)
    x, memory = torch.randn(2, 4, 24), torch.randn(2, 7, 24)
    mask = masks.padding(lengths=[7, 3])
    expected = by_loop(module, x, mask.dense(4, 7)[:, 0], memory)
    assert_close(module(x, mask, memory), expected, atol=1e-6, rtol=0)


def test_attention_to_itself_as_memory_is_self_attention():
    module = MultiHeadAttention(24, 6, 2)
    x = torch.randn(2, 5, 24)
    assert_close(module(x, memory=x), module(x))


@pytest.mark.parametrize("kv_heads", [1, 2, 3])
def test_grouped_is_multi_head_with_repeated_kv(kv_heads):
    grouped = MultiHeadAttention(24, 6, kv_heads)
    full = MultiHeadAttention(24, 6)
    d, times = grouped.head_dim, 6 // kv_heads

    def repeated(rows):
        q, k, v = rows.split([6 * d, kv_heads * d, kv_heads * d])
        k, v = (
            y.unflatten(0, (kv_heads, d)).repeat_interleave(times, 0).flatten(0, 1) for y in (k, v)
        )
        return torch.cat((q, k, v))

    full.load_state_dict(
        {
            "w_qkv.weight": repeated(grouped.w_qkv.weight),
            "w_qkv.bias": repeated(grouped.w_qkv.bias),
            "w_o.weight": grouped.w_o.weight,
            "w_o.bias": grouped.w_o.bias,
        }
    )
    x = torch.randn(2, 5, 24)
    assert_close(grouped(x, masks.causal()), full(x, masks.causal()))


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (2, 1)])
def test_gradcheck(heads, kv_heads, cross):
    module = MultiHeadAttention(4, heads, kv_heads, head_dim=3).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True) if cross else None
    mask = masks.padding(lengths=[4, 2]) if cross else masks.causal()
    names, values = zip(*module.named_parameters(), strict=True)

    def call(x, memory, *values):
        weights = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, weights, (x, mask, memory))

    assert torch.autograd.gradcheck(call, (x, memory, *values))


def test_permutation_equivariance_without_positions():
    module = MultiHeadAttention(24, 6, 2)
    x = torch.randn(2, 7, 24)
    order = torch.randperm(7)
    assert_close(module(x[:, order]), module(x)[:, order])
    assert not torch.allclose(
        module(x[:, order], masks.causal()), module(x, masks.causal())[:, order]
    )


def test_dropout_is_for_training_alone():
    module = MultiHeadAttention(24, 6, dropout=0.5)
    plain = MultiHeadAttention(24, 6)
    plain.load_state_dict(module.state_dict())
    x = torch.randn(2, 5, 24)
    assert not torch.equal(module(x), module(x))
    assert_close(module.eval()(x), plain(x))


def test_a_tap_sees_and_gates():
    module = MultiHeadAttention(24, 6, 2)
    x = torch.randn(2, 5, 24)
    seen = []
    gate = torch.tensor([1.0, 0, 1, 1, 0, 1])
    tap = Tap(observers=(lambda scores, v, z: seen.append(z),), gate=gate)
    with tapped({module: tap}):
        gated = module(x, masks.causal())
    cut = MultiHeadAttention(24, 6, 2)
    cut.load_state_dict(module.state_dict())
    d = module.head_dim
    with torch.no_grad():
        for head in (1, 4):
            cut.w_o.weight[:, head * d : head * d + d] = 0
    assert_close(gated, cut(x, masks.causal()))
    assert seen[0].shape == (2, 6, 5, d)
    assert not torch.allclose(gated, module(x, masks.causal()))


def test_heads_that_do_not_divide_are_named():
    with pytest.raises(ConfigError, match="num_heads=6 is not a multiple of num_kv_heads=4; use"):
        MultiHeadAttention(24, 6, 4)
    with pytest.raises(ConfigError, match="d_model=25 is not a multiple of num_heads=6; give"):
        MultiHeadAttention(25, 6)


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_stream_is_named():
    module = MultiHeadAttention(24, 6)
    with pytest.raises(
        ShapeError, match=r"x must be \[batch, position, d_model=24\], came \[5, 24"
    ):
        module(torch.randn(5, 24))
    with pytest.raises(ShapeError, match=r"memory must be .* came \[1, 5, 8\]"):
        module(torch.randn(1, 5, 24), memory=torch.randn(1, 5, 8))


def test_biases_are_set_apart():
    module = MultiHeadAttention(24, 6, bias=True, out_bias=False)
    assert module.w_qkv.bias is not None
    assert module.w_o.bias is None
    module = MultiHeadAttention(24, 6, bias=False, out_bias=True)
    assert module.w_qkv.bias is None
    assert module.w_o.bias is not None


def test_the_memory_is_projected_once():
    module = MultiHeadAttention(24, 6, 2)
    x, memory, cache = torch.randn(2, 4, 24), torch.randn(2, 7, 24), LayerCache(7)
    first = module(x, memory=memory, cache=cache)
    assert_close(module(x, memory=memory, cache=cache), first)
    assert_close(module(x, memory=torch.zeros_like(memory), cache=cache), first)
