"""Whatever form a mask runs in, attend gives what the oracle's mask gives; so do its chunks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import World, drawn_of, every, near, rules, some, tensor, window
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.core import masks
from headwise.core.attention import attend


def qkv(world: World, dim: int = 3, v_dim: int = 2, grouped: bool = True, dtype=torch.float64):
    """q, k and v of a world; where the heads are even in number, two share a KV head."""
    kv_heads = world.heads // 2 if grouped and world.heads % 2 == 0 else world.heads
    shapes = [(world.heads, dim), (kv_heads, dim), (kv_heads, v_dim)]
    return [torch.randn(world.batch, h, world.length, d, dtype=dtype) for h, d in shapes]


def form(mask: masks.Mask, world: World) -> str:
    return mask.form(world.length, world.length)


@given(some(every, max_length=12), st.booleans())
def test_attend_sees_what_the_oracle_sees(case, asked):
    world, drawn = case
    q, k, v = qkv(world)
    z, pattern = reference.attention(q, k, v, drawn.cells(world))
    if asked:
        ours, weights = attend(q, k, v, drawn.mask, return_pattern=True)
        assert_close(weights, pattern)
    else:
        ours = attend(q, k, v, drawn.mask)
    assert_close(ours, z)


@given(some(near, max_length=80))
def test_a_band_is_exact(case):
    world, drawn = case
    q, k, v = qkv(world)
    assert_close(attend(q, k, v, drawn.mask), reference.attention(q, k, v, drawn.cells(world))[0])


@pytest.mark.parametrize("length", [32, 33, 64, 97, 128])
@pytest.mark.parametrize(("n", "ahead"), [(1, 0), (8, 0), (1, 7), (3, 4), (5, 3)])
def test_chunks_of_every_size(length, n, ahead):
    world = World(2, 4, length)
    drawn = window(n, ahead)
    assert form(drawn.mask, world) == "chunked"
    q, k, v = qkv(world)
    assert_close(attend(q, k, v, drawn.mask), reference.attention(q, k, v, drawn.cells(world))[0])


def test_a_tensor_within_a_band_runs_chunked():
    world = World(2, 2, 70)
    bits = (torch.rand(2, 2, 70, 70) < 0.5).numpy()
    for drawn in (window(6, 2) & tensor(bits), window(6, 2) & ~tensor(bits)):
        assert form(drawn.mask, world) == "chunked"
        q, k, v = qkv(world)
        expected = reference.attention(q, k, v, drawn.cells(world))[0]
        assert_close(attend(q, k, v, drawn.mask), expected)


def test_the_wider_of_two_bands_counts():
    world = World(1, 1, 70)
    odd = tensor((np.arange(70) % 2 == 1)[None].repeat(70, 0))
    for drawn in (
        (window(2, 1) & odd) | (window(9, 3) & ~odd),
        window(9, 3) & ~odd | ~odd & window(1, 5),
    ):
        assert form(drawn.mask, world) == "chunked"
        q, k, v = qkv(world)
        expected = reference.attention(q, k, v, drawn.cells(world))[0]
        assert_close(attend(q, k, v, drawn.mask), expected)


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "expected"),
    [
        (masks.full(), 4, 9, "full"),
        (masks.causal(), 9, 9, "causal"),
        (masks.causal(), 1, 9, "full"),
        (masks.causal(), 2, 9, "dense"),
        (masks.causal(), 9, 2, "dense"),
        (masks.window(9), 9, 9, "causal"),
        (masks.window(8), 9, 9, "dense"),
        (masks.window(9, ahead=8), 9, 9, "full"),
        (masks.window(9, ahead=7), 9, 9, "dense"),
        (masks.causal() | masks.window(1, ahead=8), 9, 9, "full"),
        (masks.causal() | masks.full(), 9, 9, "full"),
        (masks.window(3), 12, 12, "chunked"),
        (masks.window(3), 11, 11, "dense"),
        (masks.window(2, ahead=1) & masks.padding(lengths=[5]), 12, 12, "chunked"),
        (masks.window(3), 4, 12, "dense"),
        (masks.causal() & masks.padding(lengths=[9]), 9, 9, "dense"),
        (masks.padding(lengths=[9]), 9, 9, "dense"),
        (~masks.window(2), 12, 12, "dense"),
    ],
)
def test_the_cheapest_form(mask, queries, keys, expected):
    assert mask.form(queries, keys) == expected


def test_only_a_square_is_the_kernels_triangle():
    assert masks.causal().form(9, 9, query_offset=0) == "causal"
    assert masks.causal().form(4, 9, query_offset=0) == "dense"
    assert masks.causal().form(9, 9, query_offset=-1) == "dense"
    assert masks.window(2).form(9, 9, query_offset=1) == "dense"


@given(some(every, max_length=12))
def test_full_and_causal_are_said_only_of_what_is(case):
    world, drawn = case
    seen = torch.from_numpy(drawn.cells(world))
    said = form(drawn.mask, world)
    if said == "full":
        assert seen.all()
    elif said == "causal":
        assert seen.equal(torch.ones_like(seen).tril())


@given(some(every, max_length=12), st.data())
def test_chunks_with_growing_keys_are_the_full_pass(case, data):
    world, drawn = case
    q, k, v = qkv(world)
    whole = attend(q, k, v, drawn.mask)
    cuts = data.draw(st.sets(st.integers(1, world.length)))
    edges = [0, *sorted(cuts | {world.length})]
    parts = []
    for a, b in itertools.pairwise(edges):
        part = q[:, :, a:b], k[:, :, :b], v[:, :, :b]
        parts.append(attend(*part, drawn.mask))
        assert_close(parts[-1], reference.attention(*part, drawn.cells(world, a, b))[0])
        with_all_keys = attend(q[:, :, a:b], k, v, drawn.mask, query_offset=a)
        assert_close(with_all_keys, whole[:, :, a:b])
    looks_ahead = np.triu(drawn.cells(world), 1).any()
    if not looks_ahead:
        assert_close(torch.cat(parts, 2), whole)


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor any operation made."""

    cells = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor):
                self.cells = max(self.cells, x.untyped_storage().nbytes() // x.itemsize)
        return out


@pytest.mark.parametrize("padded", [False, True])
def test_a_band_never_makes_n_by_n(padded):
    n = 4096
    mask = masks.window(128, ahead=64)
    if padded:
        mask = mask & masks.padding(lengths=[n - 5]) & masks.documents([0] * 9 + [1] * (n - 9))
    x = torch.randn(1, 1, n, 4, requires_grad=True)
    with Largest() as made:
        attend(x, x, x, mask).sum().backward()
    assert 0 < made.cells <= n * 512
    with Largest() as made:
        attend(x, x, x, mask, return_pattern=True)
    assert made.cells >= n * n  # the recorder does see such a tensor where one is made


@given(some(lambda world: drawn_of(rules(world), 3), max_length=8), st.data())
def test_cross_lengths(case, data):
    world, drawn = case
    queries = data.draw(st.integers(1, world.length))
    first = data.draw(st.integers(0, world.length - queries))
    q, k, v = qkv(world)
    q = q[:, :, first : first + queries]
    seen = drawn.cells(world)[:, :, first : first + queries]
    ours = attend(q, k, v, drawn.mask, query_offset=first)
    assert_close(ours, reference.attention(q, k, v, seen)[0])
