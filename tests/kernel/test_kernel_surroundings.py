"""What is around a call does not change it: default devices, autocast, layouts, and who is the witness of whom."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import headwise as hw
from headwise.core import kernel, masks
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure

needs_kernel = pytest.mark.skipif(not kernel.status().runs, reason=kernel.status().why)
TEXT = "some words and some others, once and once more. " * 20
ALL = Wanted(top=3, pool=4, received=True)


def qkv(*shape: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape) for _ in range(3)]


@pytest.mark.parametrize("path", ["auto", "portable"])
def test_a_default_device_elsewhere_changes_nothing(path: str) -> None:
    q, k, v = qkv(1, 2, 600, 32)
    scores = Scores(q, k, masks.causal(), 0.2)
    right_z, right = measure(scores, v, ALL, path=path)
    with torch.device("meta"):
        z, found = measure(scores, v, ALL, path=path)
        attended = hw.attend(q, k, v, masks.causal())
    assert attended.device.type == "cpu"
    torch.testing.assert_close(z, right_z)
    torch.testing.assert_close(found.pooled, right.pooled)
    torch.testing.assert_close(found.seen_by, right.seen_by)


def test_attend_is_laid_out_as_sdpa_lays_it_out() -> None:
    q, k, v = qkv(2, 3, 600, 32)
    right = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    z = hw.attend(q, k, v, masks.causal())
    assert z.stride() == right.stride()
    packed = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    z = hw.attend(*packed, masks.causal())
    assert z.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(z, right, atol=1e-5, rtol=1e-5)


@needs_kernel
@pytest.mark.models
def test_verified_sees_a_broken_kernel_in_our_own_blocks(monkeypatch) -> None:
    model = hw.load("smollm2")
    assert 0 < hw.profile(model, TEXT).attrs["verified"] < 1e-4
    run = kernel._Call.run
    monkeypatch.setattr(kernel._Call, "run", lambda call: run(call) * 1.5)
    assert hw.profile(model, TEXT).attrs["verified"] > 0.1
    assert hw.look(model, TEXT).verified > 0.1


@pytest.mark.parametrize("path", ["auto", "portable"])
@pytest.mark.parametrize("shape", [(0, 5, 5), (0, 5, 0), (1, 5, 0), (1, 0, 5)])
def test_calls_without_anything_give_nothing(path: str, shape: tuple[int, int, int]) -> None:
    batch, queries, keys = shape
    scores = Scores(torch.randn(batch, 2, queries, 16), torch.randn(batch, 2, keys, 16), None, 0.2)
    z, found = measure(scores, torch.randn(batch, 2, keys, 16), ALL, path=path)
    assert z.shape == (batch, 2, queries, 16)
    assert found.pooled is not None
    assert found.received is not None
    assert found.received.shape == (batch, 2, keys)
    assert not found.pooled.any()


@pytest.mark.parametrize("path", ["auto", "portable"])
def test_scores_that_overflow_look_at_no_hidden_key(path: str) -> None:
    q, k = torch.full((1, 1, 4, 16), 1.2e19), torch.ones(1, 1, 4, 16)
    k[0, 0, 0] = -1.2e19
    v = torch.zeros(1, 1, 4, 16)
    v[0, 0, 1:] = 7
    z, _ = measure(Scores(q, k, masks.causal(), 1.0), v, Wanted(), path=path)
    assert z[0, 0, 0].isnan().all()
    k[0, 0, 0] = -1.9e37  # a score below half of the lowest number there is
    low = Scores(torch.ones_like(q), k, masks.causal(), 1.0)
    z, found = measure(low, v, Wanted(), path=path)
    assert not z[0, 0, 0].any(), "row 0 sees key 0 alone, whatever its score"
    assert float(found.largest[0, 0, 0]) == 1
    assert torch.equal(low.rows()[0, 0, 0], torch.tensor([1.0, 0, 0, 0]))


def test_autocast_reads_tensors_of_several_dtypes_as_sdpa_does() -> None:
    q, k, v = qkv(1, 2, 300, 32)
    with torch.autocast("cpu", torch.bfloat16):
        right = F.scaled_dot_product_attention(q, k, v.bfloat16(), is_causal=True)
        z = hw.attend(q, k, v.bfloat16(), masks.causal())
    assert z.dtype == right.dtype == torch.bfloat16
    torch.testing.assert_close(z, right, atol=2e-2, rtol=2e-2)
