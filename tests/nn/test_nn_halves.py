"""Half precision: finite, within bounds that follow from the roundings, and no further off than transformers.

u is the most that one rounding changes, as a share: half of the dtype's eps.
"""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from headwise.core import masks
from headwise.core.attention import attend
from headwise.nn import Decoder, Encoder, EncoderDecoder, LayerNorm, RMSNorm, load_checkpoint
from headwise.nn.config import Positions
from headwise.nn.positions import alibi, alibi_slopes, place, rotary, rotate

halves = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
every_scheme = pytest.mark.parametrize("positions", get_args(Positions))
FLOAT32 = 1e-5
"""More than all that float32 rounds on the way."""


def unit(dtype):
    return torch.finfo(dtype).eps / 2


def loud(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3) if parameter.dim() > 1 else parameter.normal_(1, 0.3)
    return model


def rms(x):
    return x.float().square().mean().sqrt()


@halves
def test_norms_round_at_the_end(dtype):
    x = (torch.randn(4, 96) * torch.tensor([[1e-2], [1.0], [30.0], [900.0]])).to(dtype)
    weight = torch.randn(96).to(dtype)
    for norm, roundings in ((LayerNorm(96, bias=False), 1), (RMSNorm(96, eps=1e-5), 2)):
        norm = norm.to(dtype)
        norm.weight.data.copy_(weight)
        exact = copy.deepcopy(norm).double()(x.double())
        off = (norm(x).double() - exact).abs()
        assert (off <= roundings * unit(dtype) * exact.abs() * 1.01 + FLOAT32).all()


@halves
def test_rotary_is_off_by_three_roundings_and_the_angle(dtype):
    places = place(1, 4096).keys
    x = torch.randn(2, 3, 4096, 64).to(dtype)
    even = torch.arange(0, 64, 2, dtype=torch.float64)
    angle = places[:, None, :, None].double() * 10000.0 ** (-even / 64)
    exact = rotate(x.double(), (angle.cos(), angle.sin()))
    came = rotate(x, rotary(places, 64, dtype=dtype))
    assert came.dtype == dtype
    size = x.double().abs().unflatten(-1, (2, 32)).sum(-2).repeat(1, 1, 1, 2)
    turned = places.double()[:, None, :, None] * 2**-22  # four roundings of float32
    bound = size * (3 * unit(dtype) * (1 + unit(dtype)) + turned)
    assert ((came.double() - exact).abs() <= bound).all()


@halves
def test_alibi_is_off_by_one_rounding(dtype):
    places = place(3, 2048)
    slopes = torch.tensor(alibi_slopes(12), dtype=torch.float64)[:, None, None]
    exact = -slopes * (places.queries[:, None, :, None] - places.keys[:, None, None, :]).abs()
    came = alibi(places, 12, dtype)
    assert came.dtype == dtype
    assert ((came.double() - exact).abs() <= exact.abs() * (unit(dtype) + 2**-22)).all()


def kinds():
    padding = torch.zeros(2, 320, dtype=torch.bool)
    padding[0, :200] = True  # with causality rows that see nothing
    return {
        "full": None,
        "causal": masks.causal(),
        "window": masks.window(20),
        "padded": masks.causal() & masks.padding(key_padding_mask=padding),
    }


@halves
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("kind", kinds())
def test_attend_is_off_by_two_roundings_of_the_largest_value(dtype, gradients, kind):
    mask = kinds()[kind]
    q, k, v = (torch.randn(2, 4, 320, 32).to(dtype).requires_grad_(gradients) for _ in range(3))
    exact = [x.detach().double().requires_grad_(gradients) for x in (q, k, v)]
    wanted, z = attend(*exact, mask), attend(q, k, v, mask)
    assert z.dtype == dtype
    most = v.detach().double().abs().max()
    assert ((z.double() - wanted).abs() <= 2 * unit(dtype) * most * 1.01 + FLOAT32).all()
    if kind == "padded":
        assert not z[0, :, :200].any()
    if gradients:
        gradient = torch.randn_like(z)
        z.backward(gradient)
        wanted.backward(gradient.double())
        for came, right in zip((q, k, v), exact, strict=True):
            assert came.grad.isfinite().all()
            assert rms(came.grad - right.grad) <= 4 * unit(dtype) * rms(right.grad)


@halves
@pytest.mark.parametrize("gradients", [True, False])
def test_scores_beyond_the_range_of_float16_are_numbers(dtype, gradients):
    mask = masks.causal() & masks.padding(lengths=[30, 64])
    q, k, v = ((200 * torch.randn(2, 2, 64, 32)).to(dtype) for _ in range(3))
    q.requires_grad_(gradients)
    z = attend(q, k, v, mask)
    assert_close(z.double(), attend(q.double(), k.double(), v.double(), mask), atol=8, rtol=0.01)
    biased = attend(q, k, v, mask, bias=torch.full((1, 1, 1, 64), -6e4, dtype=dtype))
    assert_close(biased.double(), z.double(), atol=8, rtol=0.01)
    if gradients:
        z.sum().backward()
        assert q.grad.isfinite().all()


@halves
@every_scheme
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_models_are_finite_and_near(tiny, batch, dtype, kind, positions):
    ids, padding, _ = batch
    padding = padding.clone()
    padding[1] = True  # a sequence of padding alone
    config = tiny(positions=positions, activation="swiglu", norm="rms")
    model = loud(kind(config))
    half = copy.deepcopy(model).to(dtype)
    wanted, came = model(ids, padding), half(ids, padding)
    assert came.dtype == dtype
    assert came.isfinite().all()
    assert rms(came.float() - wanted) <= 40 * unit(dtype) * rms(wanted)
    came.float().logsumexp(-1).sum().backward()
    wanted.logsumexp(-1).sum().backward()
    right = dict(model.named_parameters())
    for name, parameter in half.named_parameters():
        assert parameter.grad.isfinite().all(), name
        off = rms(parameter.grad.float() - right[name].grad)
        assert off <= 80 * unit(dtype) * rms(right[name].grad) + FLOAT32, name


@halves
@every_scheme
def test_autocast_is_finite_and_near(tiny, batch, dtype, positions):
    ids, padding, _ = batch
    model = loud(EncoderDecoder(tiny(positions=positions)))
    wanted = model(ids, ids, padding)
    with torch.autocast("cpu", dtype):
        came = model(ids, ids, padding)
    assert rms(came.float() - wanted) <= 40 * unit(dtype) * rms(wanted)
    came.float().logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype is torch.float32
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
@halves
@every_scheme
@pytest.mark.parametrize("autocast", [True, False])
def test_cached_steps_are_near_the_full_pass(tiny, dtype, positions, autocast):
    model = loud(Decoder(tiny(positions=positions))).eval()
    ids = torch.randint(0, 31, (2, 9))
    wanted = model(ids)
    model = model if autocast else model.to(dtype)
    cache = model.new_cache(9)
    with torch.autocast("cpu", dtype, enabled=autocast):
        steps = torch.cat([model(token, cache=cache) for token in ids.split(1, dim=1)], 1)
    assert rms(steps.float() - wanted) <= 40 * unit(dtype) * rms(wanted)
    keys, values = cache.layers[0].held()
    assert keys.dtype == values.dtype == dtype


def theirs(kind):
    sizes = {"vocab_size": 61, "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64}
    if kind == "gpt2":
        named = {"n_layer": 4, "n_head": 4, "n_embd": 64, "vocab_size": 61, "n_positions": 96}
        return GPT2LMHeadModel(GPT2Config(**named, bos_token_id=0, eos_token_id=0))
    if kind == "llama":
        return LlamaForCausalLM(
            LlamaConfig(**sizes, intermediate_size=128, num_key_value_heads=2, bos_token_id=0)
        )
    return BertModel(BertConfig(**sizes, intermediate_size=128, max_position_embeddings=96))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_no_further_off_than_transformers(kind, tmp_path):
    model = loud(theirs(kind)).eval()
    model.save_pretrained(tmp_path)
    ids = torch.randint(0, 61, (4, 96))
    off = {}
    for name, made in (("theirs", model), ("ours", load_checkpoint(tmp_path).eval())):

        def passed(module):
            out = module(ids)
            out = out if isinstance(out, torch.Tensor) else out[0]
            out.float().logsumexp(-1).sum().backward()
            return out.detach(), torch.cat(
                [p.grad.flatten() for p in module.parameters() if p.grad is not None]
            )

        wanted, slopes = passed(made)
        came, narrow = passed(copy.deepcopy(made).to(torch.bfloat16))
        off[name] = rms(came.float() - wanted) / rms(wanted), rms(narrow - slopes) / rms(slopes)
    for own, other in zip(off["ours"], off["theirs"], strict=True):
        assert own <= 1.25 * other  # of one draw; over many they are alike
