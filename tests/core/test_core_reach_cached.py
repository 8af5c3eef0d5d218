"""Reach of cached steps and chunks, and the paths behind it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.reach import Reach
from headwise.names import MaskError

LENGTH, SOURCE = 10, 6
CAUSAL = [
    masks.causal(),
    masks.causal() & masks.window(3),
    masks.causal() & masks.documents([0, 0, 0, 1, 1, 1, 1, 1, 2, 2]),
    masks.causal() & masks.padding(lengths=[7, 10]),
    masks.causal()
    & masks.tensor(torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)) > 0.7),
]
ACROSS = [masks.full(), masks.window(2, ahead=1), masks.padding(lengths=[4])]
ENCODER = masks.reach(masks.window(1, ahead=1), 2, length=SOURCE)


def in_pieces(steps: list[Mask], ends: list[int], across: list[Mask] | None) -> Reach:
    """The reach computed piece by piece, each from the one before, as a cache does."""
    past = None
    for end in ends:
        past = masks.reach(steps, length=end, past=past, cross=across, memory=across and ENCODER)
    assert past is not None
    return past


@given(
    st.lists(st.sampled_from(CAUSAL), min_size=1, max_size=4),
    st.sets(st.integers(1, LENGTH - 1)),
    st.data(),
)
def test_steps_chunks_and_the_full_pass_agree(
    chosen: list[Mask], cuts: set[int], data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from(ACROSS), min_size=len(chosen), max_size=len(chosen))
    across = data.draw(st.none() | some)
    whole = in_pieces(chosen, [LENGTH], across)
    pieces = in_pieces(chosen, [*sorted(cuts), LENGTH], across)
    assert pieces.start == max(cuts, default=0)
    assert torch.equal(pieces.first, whole.first)
    assert all(map(torch.equal, pieces.seen, whole.seen))
    if whole.memory is not None:
        assert pieces.memory is not None
        assert torch.equal(pieces.memory, whole.memory)
        assert all(map(torch.equal, pieces.across, whole.across))


def test_what_a_cache_holds_stays_what_it_was() -> None:
    ahead = masks.window(2, ahead=1)
    whole = masks.reach(ahead, 3, length=5)
    cached = masks.reach(ahead, 3, length=5, past=masks.reach(ahead, 3, length=4))
    assert whole.first[0].tolist()[0] == [0, 1, 2, 3, -1]
    assert whole.first[0, 3, 4] == 1
    assert cached.first[0, 3, 4] == -1
    assert cached.first[0, 4].tolist() == [-1, 3, 2, 1, 0]


@given(st.lists(st.sampled_from([*CAUSAL, masks.window(2, ahead=2)]), min_size=1, max_size=4))
def test_a_path_is_as_long_as_reach_says_and_each_step_is_seen(chosen: list[Mask]) -> None:
    across = [masks.window(2, ahead=1)] * len(chosen)
    found = masks.reach(chosen, length=LENGTH, cross=across, memory=ENCODER)
    assert found.memory is not None
    for text in range(found.first.shape[0]):
        for query in range(LENGTH):
            for key in range(LENGTH):
                check_path(found, query, key, False, text)
            for key in range(SOURCE):
                check_path(found, query, key, True, text)


def check_path(found: Reach, query: int, key: int, memory: bool, text: int) -> None:
    first = found.memory if memory else found.first
    assert first is not None
    wanted = int(first[text if len(first) > 1 else 0, query, key])
    path = found.path(query, key, memory=memory, text=text)
    if wanted < 0:
        assert path is None
        return
    assert path is not None
    at = key
    layers = [hop.layer for hop in path if hop.stream != "encoder"]
    assert layers == sorted(set(layers))
    assert max(layers, default=0) == wanted
    for hop in path:
        rows = {"self": found.seen, "cross": found.across, "encoder": ENCODER.seen}[hop.stream]
        seen = rows[hop.layer - 1]
        assert hop.key == at
        assert seen[text if len(seen) > 1 else 0, hop.query, hop.key]
        at = hop.query
    assert at == query
    assert [hop.stream for hop in path].count("cross") == int(memory)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda past: masks.reach(masks.causal(), 2, length=3, past=past), "holds 3 positions"),
        (lambda past: masks.reach(masks.causal(), 1, length=4, past=past), "has 2 layers"),
        (
            lambda past: masks.reach(
                masks.causal(), 2, length=4, past=past, cross=masks.full(), memory=ENCODER
            ),
            "or neither",
        ),
        (lambda past: past.path(3, 0), "query must be from 0 to 2"),
        (lambda past: past.path(0, 0, memory=True), "is of one sequence"),
        (lambda past: past.context(memory=True), "is of one sequence"),
    ],
)
def test_what_a_past_cannot_be_is_refused(call, message: str) -> None:
    with pytest.raises(MaskError, match=message):
        call(masks.reach(masks.causal(), 2, length=3))
