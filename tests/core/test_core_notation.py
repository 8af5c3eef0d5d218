"""Whatever is written, reading a mask ends at once: with the mask, or with one line and the place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.names import MaskError

PIECES = [
    *("causal", "full", "window", "prefix", "documents", "padding", "ahead", "n", "lengths", "x"),
    *("&", "|", "~", "(", ")", "[", "]", ",", "=", " ", "\n", "0", "1", "2", "7", "9" * 30, "\x1b"),
    *("因果", "Ã", "-1", "1.5", "__class__", "."),
]
WRITTEN = st.recursive(
    st.sampled_from(
        ["causal", "full()", "window(2)", "window(3, ahead=1)", "prefix(2)", "prefix([1, 3])"]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&", "|"]), inner).map(
            lambda x: f"({x[0]}){x[1]}({x[2]})"
        ),
        inner.map(lambda x: f"~(prefix(1) | {x})"),
    ),
    max_leaves=8,
)


def check_told(text: str) -> None:
    """A mask, or one clear line, then the text around the place and a mark beneath it."""
    try:
        assert isinstance(masks.read(text), Mask)
    except MaskError as error:
        lines = str(error).split("\n")
        assert 5 < len(lines[0]) < 400
        assert all(line.isprintable() for line in lines)
        if len(lines) > 1:
            _, shown, mark = lines
            assert mark.lstrip() == "^"
            assert len(shown) < 90
        else:
            assert "empty text" in lines[0] or "at most" in lines[0]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_pieces_give_a_mask_or_a_place(text: str) -> None:
    check_told(text)


@given(st.text(max_size=60))
def test_any_text_gives_a_mask_or_a_place(text: str) -> None:
    check_told(text)


@given(WRITTEN)
def test_what_is_written_right_is_what_python_makes_of_it(text: str) -> None:
    known = {
        name: getattr(masks, name) for name in ("causal", "full", "window", "prefix", "documents")
    }
    found = masks.read(text)
    made = eval(text.replace("causal", "causal()"), known)
    assert torch.equal(found.dense(4, 4), made.dense(4, 4))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(" * 100_000, "more than 40 brackets"),
        ("~" * 5_000 + "causal", "more than 40 brackets and ~"),
        ("causal|prefix(3)&" * 5_000 + "full", "more than 100 masks"),
        ("causal " * 200_000, "a mask takes at most 100000"),
        ("window(" + "9" * 90_000 + ")", "numbers go up to 2147483648"),
        ("documents([" + "9" * 30 + "])", "numbers go up to"),
        ("x" * 90_000, "there is no mask 'xxx"),
        ("window([" + "1," * 40_000 + "1])", "a whole number is wanted"),
        ("prefix([1, 2]) & padding(lengths=[1, 2, 3])", "masks of 2 and of 3 sequences"),
        ("documents(3)", "a list is wanted"),
        ("window(٣)", "is no part of a mask"),
    ],
)
def test_no_length_depth_or_number_is_too_much_to_be_told(text: str, why: str) -> None:
    with pytest.raises(MaskError) as told:
        masks.read(text)
    assert why in str(told.value).split("\n")[0]
    check_told(text)


def test_numbers_may_begin_with_zeros_and_documents_be_long() -> None:
    assert torch.equal(masks.read("window(0003)").dense(5, 5), masks.window(3).dense(5, 5))
    ids = [i // 7 for i in range(4096)]
    found = masks.read(f"causal & documents({ids})")
    assert torch.equal(found.dense(9, 9), masks.documents(ids[:9]).dense(9, 9).tril())


@pytest.mark.parametrize(
    ("text", "shown", "cells"),
    [
        ("causal & 因果", "causal & 因果", 9),
        ("full(因 causal", "full(因 causal", 5),
        ("causal\n& \x1b[31m", "causal &  [31m", 9),
        ("causal & " + "full & " * 20 + "-", "..." + ("full & " * 20)[-33:] + "-", 36),
        ("foo & " + "full & " * 20 + "full", ("foo & " + "full & " * 20)[:33] + "...", 0),
    ],
)
def test_the_mark_stands_under_the_place(text: str, shown: str, cells: int) -> None:
    with pytest.raises(MaskError) as told:
        masks.read(text)
    assert str(told.value).split("\n")[1:] == [f"  {shown}", f"  {' ' * cells}^"]


def test_only_text_is_read(unchecked) -> None:
    with pytest.raises(MaskError, match="empty text"):
        masks.read(" \n")
    with pytest.raises(MaskError, match="came bytes"):
        masks.read(b"causal")  # type: ignore[arg-type]
