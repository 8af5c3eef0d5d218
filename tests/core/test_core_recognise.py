"""A dense mask is read back as the rule it came from, or kept as it is: never as anything else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import every, some

from headwise.core import masks
from headwise.core.limits import Real
from headwise.core.recognise import recognise
from headwise.core.rules import Full, Given, Window


@given(some(every, max_length=10), st.data())
def test_what_comes_back_is_the_same_mask(case, data):
    world, drawn = case
    first = data.draw(st.integers(0, world.length - 1))
    dense = drawn.mask.dense(world.length - first, world.length)
    again = recognise(dense, first)
    assert again.dense(world.length - first, world.length).expand_as(dense).equal(dense)


@settings(max_examples=15)
@given(st.integers(1, 400), st.integers(0, 400), st.integers(257, 700), st.integers(0, 300))
def test_windows_longer_than_a_block_of_rows(n, ahead, length, first):
    first = min(first, length - 1)
    dense = masks.window(n, ahead).dense(length - first, length)
    again = recognise(dense, first)
    assert isinstance(again.rule, Full | Window)
    assert again.dense(length - first, length).equal(dense)


@pytest.mark.parametrize("length", [3, 40, 600])
@pytest.mark.parametrize("side", ["none", "left", "right", "holes"])
def test_compact_forms(length, side):
    padded = torch.zeros(2, length, dtype=torch.bool)
    if side == "holes":
        padded[:, 1::3] = True
    elif side != "none":
        padded[1, slice(0, 2) if side == "left" else slice(-2, None)] = True
    limit = masks.padding(key_padding_mask=padded)
    for rule, kind in (
        (masks.full(), (None, None)),
        (masks.causal(), (None, 0)),
        (masks.window(2, ahead=1), (1, 1)),
    ):
        mask = rule if side == "none" else rule & limit
        dense = mask.dense(length, length)
        again = recognise(dense, 0)
        assert again.dense(length, length).equal(dense)
        if length > 3 and side != "holes":
            assert again.rule.band() == kind
        assert not isinstance(again.rule, Given)
        if side != "none":
            assert all(isinstance(limit, Real) for limit in again.limits)
            assert len(again.limits) == 1


@pytest.mark.parametrize("lengths", [[1, 40], [40, 1], [0, 40]])
def test_the_longest_sequence_shows_the_window(lengths):
    dense = (masks.window(5, ahead=2) & masks.padding(lengths=lengths)).dense(40, 40)
    again = recognise(dense, 0)
    assert again.rule.band() == (4, 2)
    assert again.dense(40, 40).equal(dense)


def test_one_cell_off_late_in_the_sequence_is_no_window():
    dense = masks.window(5).dense(600, 600).clone()
    for row, column in ((599, 594), (599, 0), (300, 298), (257, 257)):
        spoilt = dense.clone()
        spoilt[0, 0, row, column] ^= True
        again = recognise(spoilt, 0)
        assert again.dense(600, 600).equal(spoilt)
        assert isinstance(again.rule, Given)


def test_a_mask_that_tells_heads_apart_is_kept():
    bits = torch.stack([torch.ones(4, 4), torch.ones(4, 4).tril()]).bool()[None]
    assert isinstance(recognise(bits, 0).rule, Given)
    assert recognise(bits, 0).dense(4, 4).equal(bits)


@pytest.mark.parametrize("shape", [(1, 1, 0, 4), (1, 1, 4, 0), (2, 1, 0, 0)])
def test_nothing_to_read(shape):
    assert recognise(torch.ones(shape, dtype=torch.bool), 0).dense(*shape[2:]).shape == shape


def test_nothing_seen():
    nothing = torch.zeros(2, 1, 5, 5, dtype=torch.bool)
    again = recognise(nothing, 0)
    assert not again.dense(5, 5).any()


def test_the_tail_of_a_causal_mask():
    for queries in (1, 3):
        dense = masks.causal().dense(queries, 9)
        again = recognise(dense, 9 - queries)
        assert not isinstance(again.rule, Given)
        np.testing.assert_array_equal(again.dense(queries, 9), dense)
