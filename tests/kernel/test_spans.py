"""The runs of keys worked out from a mask are those of its dense form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.spans import spans

N = 9


def leaf(draw: st.DrawFn, batch: int) -> Mask:
    numbers = st.lists(st.integers(0, N + 1), min_size=batch, max_size=batch)
    bits = np.random.default_rng(draw(st.integers(0, 999))).random((batch, N)) < 0.7
    match draw(st.integers(0, 7)):
        case 0:
            return masks.causal()
        case 1:
            return masks.window(draw(st.integers(1, N + 2)), draw(st.integers(0, N)))
        case 2:
            return masks.prefix(draw(st.integers(0, N + 1)))
        case 3:
            return masks.prefix(draw(numbers))
        case 4:
            return masks.padding(lengths=draw(numbers))
        case 5:
            return masks.padding(key_padding_mask=torch.from_numpy(~bits))
        case 6:
            low, high = sorted((draw(st.integers(0, N)), draw(st.integers(0, N))))
            hidden = (torch.arange(N) < low) | (torch.arange(N) >= high)
            return masks.padding(key_padding_mask=hidden[None])
        case _:
            ids = draw(st.lists(st.integers(0, 3), min_size=N, max_size=N))
            return masks.documents(sorted(ids) if draw(st.booleans()) else ids)


@st.composite
def drawn(draw: st.DrawFn) -> Mask:
    batch = draw(st.integers(1, 3))
    mask = leaf(draw, batch)
    for _ in range(draw(st.integers(0, 3))):
        other = leaf(draw, batch)
        match draw(st.integers(0, 3)):
            case 0:
                mask = mask | other
            case 1 if not isinstance(mask.rule, masks.Full):
                mask = ~mask
            case _:
                mask = mask & other
    if draw(st.integers(0, 5)) == 0:
        heads = draw(st.integers(1, 2))
        mask = mask & masks.tensor(torch.rand(1, heads, N, N) < 0.9)
    return mask


def cells_of(span: tuple[torch.Tensor, torch.Tensor], keys: int) -> torch.Tensor:
    at = torch.arange(keys)
    return (at >= span[0][..., None]) & (at < span[1][..., None])


def is_runs(dense: torch.Tensor) -> bool:
    """Whether each row [batch, head, query] is one run of keys, the same for all heads."""
    edges = (torch.nn.functional.pad(dense.int(), (1, 0)).diff(dim=-1) > 0).sum(-1)
    return bool((edges <= 1).all()) and bool((dense == dense[:, :1]).all())


@given(mask=drawn(), queries=st.integers(0, N))
def test_spans_are_the_dense_mask_or_there_are_none(mask: Mask, queries: int) -> None:
    dense = mask.dense(queries, N)
    span = spans(mask, queries, N, N - queries)
    assert (span is not None) == is_runs(dense)
    if span is None:
        return
    assert span[0].dtype == span[1].dtype == torch.int32
    assert bool((cells_of(span, N) == dense[:, 0]).all())
    assert bool(((span[0] < span[1]) | ((span[0] == 0) & (span[1] == 0))).all())


@pytest.mark.parametrize("offset", [-3, 0, 4])
def test_any_offset(offset: int) -> None:
    mask = masks.window(3)
    span = spans(mask, 5, N, offset)
    assert span is not None
    assert bool((cells_of(span, N) == mask.dense(5, N, offset)[:, 0]).all())


def test_no_mask_sees_all() -> None:
    span = spans(None, 3, 5, 2)
    assert span is not None
    assert span[0].tolist() == [[0, 0, 0]]
    assert span[1].tolist() == [[5, 5, 5]]


@pytest.mark.parametrize("make", [masks.causal, lambda: masks.window(300)])
def test_long_rules_hold_no_matrix(make) -> None:
    length = 2**17  # a dense mask would be 16 GiB
    span = spans(make() & masks.padding(lengths=[length - 5]), length, length, 0)
    assert span is not None
    assert int(span[1].max()) == length - 5
