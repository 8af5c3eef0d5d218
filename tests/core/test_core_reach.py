"""Reach against paths walked by hand, and masks written as text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import masks, reaching
from headwise.core.masks import Mask
from headwise.names import MaskError

LENGTH = 9
SOME = [
    masks.causal(),
    masks.causal() & masks.window(3),
    masks.window(2, ahead=1),
    masks.causal() | masks.prefix(2),
    masks.causal() & masks.documents([0, 0, 0, 0, 1, 1, 1, 2, 2]),
    masks.padding(lengths=[7]),
    masks.tensor(
        torch.rand(1, 3, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0)) > 0.8
    ),
]


def walked(steps: list[np.ndarray], q: int, k: int) -> int:
    """After how many layers q is reached from k: a set of positions that grows layer by layer."""
    holds = {k}
    if q in holds:
        return 0
    for layer, seen in enumerate(steps, 1):
        holds |= {at for at in range(len(seen)) if any(seen[at, other] for other in holds)}
        if q in holds:
            return layer
    return -1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(SOME), min_size=1, max_size=4))
def test_first_is_the_shortest_path_through_the_layers(chosen: list[Mask]) -> None:
    found = masks.reach(chosen, length=LENGTH)
    steps = [mask.dense(LENGTH, LENGTH, 0)[0].any(0).numpy() for mask in chosen]
    expected = [[walked(steps, q, k) for k in range(LENGTH)] for q in range(LENGTH)]
    assert found.first[0].tolist() == expected
    for layers in range(len(chosen) + 1):
        context = [sum(0 <= one <= layers for one in row) for row in expected]
        assert found.context(layers)[0].tolist() == context


@st.composite
def steps(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Who sees whom, by chance or as bands and runs, and what reached the keys before."""
    queries, keys, sources = (draw(st.integers(1, 40)) for _ in "abc")
    chance = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    dense = torch.rand(1, queries, keys, generator=chance) < draw(st.sampled_from([0, 0.1, 0.5, 1]))
    if draw(st.booleans()):
        at, key = torch.arange(queries)[:, None], torch.arange(keys)
        back, ahead = draw(st.integers(0, 40)), draw(st.integers(-3, 3))
        dense = ((key >= at - back) & (key <= at + ahead))[None]
        if draw(st.booleans()):
            dense = dense | (key < draw(st.integers(0, keys)))
    reached = torch.rand(1, keys, sources, generator=chance) < draw(st.sampled_from([0.05, 0.5]))
    return dense, reached


@settings(max_examples=150, deadline=None)
@given(steps())
def test_sums_over_runs_are_the_product(step: tuple[torch.Tensor, torch.Tensor]) -> None:
    seen, reached = step
    product = (seen.double() @ reached.double()) > 0
    assert torch.equal(reaching._through(seen, reached), product)
    runs = reaching._runs(seen)
    most = int((torch.nn.functional.pad(seen[0].int(), (1, 0)).diff(dim=1) == 1).sum(1).max())
    assert (runs is None) == (most > 8)
    if runs is not None:
        covered = torch.zeros_like(seen[0])
        for starts, ends in runs:
            key = torch.arange(seen.shape[2])
            covered |= (key >= starts[:, None]) & (key < ends[:, None])
        assert torch.equal(covered, seen[0])


def test_a_window_reaches_further_with_each_layer() -> None:
    found = masks.reach(masks.causal() & masks.window(4), 3, length=40)
    assert [int(found.back(layers)[0, -1]) for layers in range(4)] == [0, 3, 6, 9]
    assert found.opens is None
    assert masks.reach(masks.causal(), 5, length=40).opens == 1
    alternating = [masks.causal() & masks.window(2), masks.causal()]
    assert int(masks.reach(alternating, length=40).back(1).max()) == 1
    assert int(masks.reach(alternating, length=40).back().max()) == 39


def test_texts_of_a_batch_are_told_apart() -> None:
    found = masks.reach(masks.causal() & masks.padding(lengths=[4, 2]), 2, length=4)
    assert found.context()[:, -1].tolist() == [4, 3]


def test_a_decoder_reaches_what_the_encoder_reached() -> None:
    encoder = masks.reach(masks.window(1, ahead=1), 1, length=5)
    cross = masks.tensor(torch.eye(3, 5, dtype=torch.bool))
    found = masks.reach(masks.causal(), 2, length=3, cross=cross, memory=encoder)
    assert found.memory is not None
    assert found.memory[0].tolist() == [[1, 1, -1, -1, -1], [2, 1, 1, -1, -1], [2, 2, 1, 1, -1]]
    assert found.first[0].tolist() == masks.reach(masks.causal(), 2, length=3).first[0].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masks.reach([], length=3), "takes a mask or a list of masks"),
        (lambda: masks.reach(masks.causal(), 0, length=3), "layers must be a whole number from 1"),
        (lambda: masks.reach([masks.causal()] * 2, 3, length=3), "holds 2 masks for 3 layers"),
        (lambda: masks.reach(masks.causal(), length=0), "length must be"),
        (lambda: masks.reach(masks.causal(), length=3, cross=masks.full()), "go together"),
        (lambda: masks.reach(masks.causal(), length=3).after(2), "from 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused(call, message: str) -> None:
    with pytest.raises(MaskError, match=message):
        call()


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("causal & window(4) | prefix(2)", masks.causal() & masks.window(4) | masks.prefix(2)),
        ("causal&(window(4)|prefix(2))", masks.causal() & (masks.window(4) | masks.prefix(2))),
        ("~causal() | window(n=2, ahead=1)", ~masks.causal() | masks.window(2, ahead=1)),
        (
            "causal & documents([0,0,0,1,1,1]) & padding(lengths=[5])",
            masks.causal() & masks.documents([0, 0, 0, 1, 1, 1]) & masks.padding(lengths=[5]),
        ),
        ("full & padding(3)", masks.padding(lengths=[3])),
        ("~~prefix(1)", masks.prefix(1)),
    ],
)
def test_a_mask_is_read_as_python_would(text: str, mask: Mask) -> None:
    assert torch.equal(masks.read(text).dense(6, 6), mask.dense(6, 6))


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("causal & foo", 9, "there is no mask 'foo'"),
        ("window", 0, "window needs n"),
        ("causal causal", 7, "join two with & or"),
        ("causal & (window(2)", 19, "the bracket at character 10 is not closed"),
        ("window(0)", 0, "at least 1"),
        ("causal & ", 9, "the text ends where a mask is wanted"),
        ("causal ; 1", 7, "';' is no part of a mask"),
        ("window(2, 3, 4)", 13, "it takes n, ahead"),
        ("window(n=2, n=3)", 12, "given twice"),
        ("documents([1, 2)", 15, "not closed with"),
        ("__import__('os')", 0, "there is no mask '__import__'"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, at: int, why: str) -> None:
    with pytest.raises(MaskError) as told:
        masks.read(text)
    first, shown, mark = str(told.value).split("\n")
    assert why in first
    assert (shown, mark) == (f"  {text}", f"  {' ' * at}^")
