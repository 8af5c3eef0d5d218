"""The laws of the mask algebra, against an oracle that evaluates each expression cell by cell."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import Drawn, World, drawn_of, every, limits, rules, some

from headwise.core import masks
from headwise.core.rules import Window
from headwise.names import MaskError


def cells(drawn: Drawn, world: World) -> np.ndarray:
    """The dense form, spread over the batch and the heads of the world."""
    dense = drawn.mask.dense(world.length, world.length)
    assert dense.shape[0] in (1, world.batch)
    assert dense.shape[1] in (1, world.heads)
    return dense.expand(world.batch, world.heads, world.length, world.length).numpy()


def same(a: Drawn, b: Drawn, world: World) -> bool:
    return np.array_equal(cells(a, world), cells(b, world))


@given(some(every))
def test_dense_is_the_oracle(case):
    world, drawn = case
    np.testing.assert_array_equal(cells(drawn, world), drawn.cells(world))


@given(some(lambda world: drawn_of(rules(world), 3), count=2))
def test_de_morgan(case):
    world, a, b = case
    assert same(~(a & b), ~a | ~b, world)
    assert same(~(a | b), ~a & ~b, world)


@given(some(lambda world: drawn_of(rules(world), 3)))
def test_complement(case):
    world, a = case
    assert same(~~a, a, world)
    assert cells(a | ~a, world).all()
    assert not cells(a & ~a, world).any()


@given(some(every, count=3))
def test_lattice(case):
    world, a, b, c = case
    assert same(a & b, b & a, world)
    assert same(a | b, b | a, world)
    assert same((a & b) & c, a & (b & c), world)
    assert same((a | b) | c, a | (b | c), world)
    assert same(a & (b | c), (a & b) | (a & c), world)
    assert same(a | (b & c), (a | b) & (a | c), world)
    assert same(a & a, a, world)
    assert same(a | a, a, world)


@given(some(limits).flatmap(lambda c: st.tuples(st.just(c), every(c[0]), every(c[0]))))
def test_limits_hold_whatever_is_or_ed_in(case):
    (world, limit), a, b = case
    hidden = ~limit.cells(world)
    for mask in (limit | a, a | limit, (a & limit) | b, b | (limit & a), limit & a | b & limit):
        assert not (cells(mask, world) & hidden).any(), mask


@given(some(limits).flatmap(lambda c: st.tuples(st.just(c), rules(c[0]))))
def test_inverting_keeps_the_limits(case):
    (world, limit), rule = case
    with pytest.raises(MaskError, match="invert the rule before adding the limit"):
        _ = ~limit.mask
    both = limit & rule
    if not isinstance(both.mask.rule, type(masks.full().rule)):
        expected = ~rule.cells(world) & limit.cells(world)
        np.testing.assert_array_equal(cells(~both, world), expected)


@given(some(every), st.data())
def test_rows_of_the_whole_are_the_chunk(case, data):
    world, drawn = case
    stop = data.draw(st.integers(1, world.length))
    first = data.draw(st.integers(0, stop - 1))
    chunk = drawn.mask.dense(stop - first, stop, query_offset=first)
    expected = drawn.cells(world, first, stop)
    shape = (world.batch, world.heads, stop - first, stop)
    np.testing.assert_array_equal(chunk.expand(shape).numpy(), expected)
    np.testing.assert_array_equal(drawn.mask.dense(stop - first, stop).expand(shape), expected)


@given(some(every))
def test_a_mask_says_what_it_is(case):
    _, drawn = case
    assert repr(drawn.mask).count("(") == repr(drawn.mask).count(")") > 0


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9))
def test_windows_stay_windows(n, ahead, m, further):
    a, b = masks.window(n, ahead), masks.window(m, further)
    assert isinstance((a & b).rule, Window)
    assert isinstance((a | b).rule, Window)
    assert isinstance((a | masks.causal()).rule, Window)
    world = World(1, 1, 12)
    for ours, seen in (
        (a & b, np.logical_and),
        (a | b, np.logical_or),
    ):
        expected = seen(a.dense(12, 12).numpy(), b.dense(12, 12).numpy())
        np.testing.assert_array_equal(cells(Drawn(ours, ""), world), expected)


def test_causal_and_window_by_hand():
    assert masks.causal().dense(2, 3)[0, 0].tolist() == [[True, True, False], [True] * 3]
    assert masks.window(1).dense(3, 3)[0, 0].equal(torch.eye(3, dtype=torch.bool))
    assert masks.window(2, ahead=1).dense(1, 5, query_offset=2)[0, 0].tolist() == [
        [False, True, True, True, False]
    ]


def test_more_queries_than_keys_leaves_the_first_without_keys():
    assert masks.causal().dense(4, 2)[0, 0].sum(-1).tolist() == [0, 0, 1, 2]


def test_prefix_language_model():
    seen = (masks.causal() | masks.prefix(2)).dense(4, 4)[0, 0]
    assert seen.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_documents_of_queries_apart_from_those_of_keys():
    mask = masks.documents([1, 1, 2, 3, 3], query_ids=torch.tensor([2, 3, 1]))
    expected = [[0, 0, 1, 0, 0], [0, 0, 0, 1, 1], [1, 1, 0, 0, 0]]
    assert mask.dense(3, 5)[0, 0].int().tolist() == expected
    assert mask.dense(1, 5, query_offset=1)[0, 0].int().tolist() == expected[1:2]


def test_a_tensor_with_a_row_per_query_is_taken_as_it_is():
    bits = torch.rand(3, 7) < 0.5
    for offset in (None, 0, 2):
        assert masks.tensor(bits).dense(3, 7, query_offset=offset)[0, 0].equal(bits)
    assert masks.tensor(bits).dense(1, 5, query_offset=2)[0, 0].equal(bits[2:, :5])


def test_nothing_to_see():
    assert masks.causal().dense(0, 3).shape == (1, 1, 0, 3)
    assert masks.window(2).dense(3, 0).shape == (1, 1, 3, 0)
