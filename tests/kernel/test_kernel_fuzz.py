"""Any call the kernel takes: shapes, strides, dtypes, masks, statistics, threads; against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_help import assert_same, forced, scores_of, threads
from torch import Tensor

from headwise.core import kernel, masks
from headwise.core.masks import Mask
from headwise.core.streaming import Wanted, measure


def tensor_of(draw: st.DrawFn, shape: tuple[int, int, int, int], dtype: torch.dtype) -> Tensor:
    """Random numbers [batch, head, row, dim], laid out in memory in one of several ways."""
    batch, heads, rows, dim = shape
    match draw(st.sampled_from(["plain", "transposed", "sliced", "expanded", "columns"])):
        case "transposed":
            return torch.randn(batch, rows, heads, dim).to(dtype).transpose(1, 2)
        case "sliced":
            whole = torch.randn(batch, heads + 1, rows + 3, dim + 5).to(dtype)
            return whole[:, 1:, 2 : rows + 2, 3 : dim + 3]
        case "expanded":
            return torch.randn(1, heads, rows, dim).to(dtype).expand(batch, -1, -1, -1)
        case "columns":  # the last axis in steps
            return torch.randn(batch, heads, dim, rows).to(dtype).transpose(2, 3)
    return torch.randn(shape).to(dtype)


def mask_of(draw: st.DrawFn, batch: int, queries: int, keys: int) -> Mask | None:
    lengths = draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch))
    real = torch.arange(keys) < torch.tensor(lengths)[:, None]
    width = draw(st.integers(1, keys + 2))
    every = [
        None,
        masks.full(),
        masks.causal(),
        masks.window(width),
        masks.window(width, ahead=3) & masks.padding(lengths=lengths),
        masks.causal() & masks.padding(key_padding_mask=~real.flip(1)),
        masks.causal() | masks.prefix(width),
    ]
    if queries == keys:
        every.append(masks.causal() & masks.documents(torch.arange(keys) // width))
    return draw(st.sampled_from(every))


@st.composite
def calls(draw: st.DrawFn):
    torch.manual_seed(draw(st.integers(0, 2**16)))
    batch, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    keys = draw(st.one_of(st.integers(1, 40), st.integers(41, 200)))
    queries = draw(st.one_of(st.just(keys), st.integers(0, 70)))
    dim, v_dim = (draw(st.sampled_from([16, 17, 40, 64, 80, 128, 256])) for _ in range(2))
    dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.bfloat16]))
    q = tensor_of(draw, (batch, heads, queries, dim), dtype)
    k = tensor_of(draw, (batch, kv_heads, keys, dim), dtype)
    v = tensor_of(draw, (batch, kv_heads, keys, v_dim), dtype)
    offset = draw(st.sampled_from([keys - queries, 0, 5]))
    mask = mask_of(draw, batch, queries, keys)
    if mask is not None and (offset + queries > keys or offset < 0) and mask.limits:
        offset = max(0, keys - queries)
    some = st.sampled_from([None, 1, batch])
    probe_batch, eligible_batch = draw(some), draw(some)
    wanted = Wanted(
        probes=None
        if probe_batch is None
        else torch.randint(-1, keys, (probe_batch, draw(st.integers(1, 4)), queries)),
        top=draw(st.integers(0, 32)),
        eligible=None if eligible_batch is None else torch.rand(eligible_batch, keys) < 0.7,
        apart=draw(st.sampled_from([0, 0, 1, 4])),
        pool=draw(st.sampled_from([0, 1, 7, 32])),
        received=draw(st.booleans()),
        query_lengths=draw(st.sampled_from([None, torch.randint(0, queries + 1, (batch,))])),
        key_lengths=draw(st.sampled_from([None, torch.randint(0, keys + 1, (batch,))])),
    )
    return scores_of(q, k, mask, offset), v, wanted


@pytest.mark.parametrize("name", kernel.SETS)
@settings(max_examples=80)
@given(call=calls(), count=st.integers(1, 3))
def test_every_call_equals_float64(name: str, call, count: int) -> None:
    with forced(name), threads(count):
        assert_same(*call)


@pytest.mark.parametrize("name", kernel.SETS)
@pytest.mark.parametrize("heads", [1, 6])
def test_same_threads_same_bits(name: str, heads: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, heads, 150, 32)
    wanted = Wanted(top=4, pool=9, received=True)
    with forced(name), threads(3):
        z, once = measure(scores_of(q, k, masks.causal()), v, wanted, path="kernel")
        for _ in range(5):
            again_z, again = measure(scores_of(q, k, masks.causal()), v, wanted, path="kernel")
            assert torch.equal(z, again_z)
            for field in ("received", "pooled", "pooled_max", "entropy", "top_keys"):
                assert torch.equal(getattr(once, field), getattr(again, field)), field


@pytest.mark.parametrize("name", kernel.SETS)
def test_z_is_laid_out_for_the_projection(name: str) -> None:
    q, k, v = torch.randn(3, 2, 4, 20, 32)
    with forced(name):
        z, _ = measure(scores_of(q, k, None), v, Wanted(), path="kernel")
    assert z.transpose(1, 2).is_contiguous()
