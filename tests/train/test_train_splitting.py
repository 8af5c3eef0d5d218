"""Nothing of what is held out is trained on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.names import ConfigError, TextError
from headwise.train.data import normalised, split_documents, split_pairs

TEXTS = st.lists(st.text("abc\n", min_size=1, max_size=60), min_size=2, max_size=30)
WORDS = st.sampled_from(
    ["Open", "_Open", "open.", "Close", "Save", "File", "Edit", "一", "二", "三。", "三"]
)


@given(TEXTS, st.floats(0.05, 0.6), st.integers(0, 4))
def test_every_character_is_on_one_side(documents, share, seed):
    try:
        kept, held = split_documents(documents, share, seed)
    except TextError:
        return
    whole = "".join(documents)
    assert sorted("".join((*kept, *held)).replace("\n", "")) == sorted(whole.replace("\n", ""))
    assert sum(map(len, held)) <= share * len(whole) + 1e-9
    assert not set(held) & set(kept)
    assert kept
    assert held


def test_documents_are_held_out_whole_and_equal_ones_together():
    documents = [f"text {i % 40}" for i in range(80)]
    kept, held = split_documents(documents, 0.25, 1)
    assert sorted((*kept, *held)) == sorted(documents)
    assert len(held) == pytest.approx(20, abs=2)
    assert all(held.count(text) == 2 for text in held)
    assert split_documents(documents, 0.25, 1) == (kept, held)
    assert split_documents(documents, 0.25, 2) != (kept, held)


def test_one_long_document_is_cut_at_line_ends_and_what_lies_between_stays_in_order():
    document = "".join(f"line {i} of a long text\n" for i in range(2000))
    kept, held = split_documents([document], 0.1)
    assert 0.07 < sum(map(len, held)) / len(document) <= 0.1
    assert len(held) > 5
    assert all(part.endswith("\n") for part in (*kept, *held))
    lines = {line for part in held for line in part.splitlines()}
    assert not lines & {line for part in kept for line in part.splitlines()}
    parts = sorted((*kept, *held), key=document.index)
    assert "".join(parts) == document


def test_a_long_line_is_cut_too():
    kept, held = split_documents(["".join(chr(0x4E00 + i) for i in range(5000))], 0.1)
    assert sum(map(len, (*kept, *held))) == 5000
    assert held


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=20), st.integers(0, 3))
def test_no_source_or_target_of_one_side_is_in_the_other(pairs, seed):
    try:
        kept, held = split_pairs(pairs, 0.4, seed)
    except TextError:
        return
    assert sorted((*kept, *held)) == sorted(pairs)
    assert 0 < len(held) <= 0.4 * len(pairs)
    for side in (0, 1):
        keys = [{normalised(pair[side]) for pair in part} for part in (kept, held)]
        assert not keys[0] & keys[1]


def test_pairs_hang_together_by_way_of_others():
    chain = [("a", "1"), ("b", "1"), ("b", "2"), ("c", "2")]
    kept, held = split_pairs([*chain, ("d", "3"), ("e", "4")], 0.34, 0)
    assert set(held) == {("d", "3"), ("e", "4")}
    assert kept == chain


def test_texts_that_differ_by_menu_marks_or_case_are_one():
    assert normalised("_Open File…") == normalised("open &file") == "openfile"
    assert normalised("打开(_O)") == "打开o"
    assert normalised(" % ") == "%"


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_share_is_one(share):
    with pytest.raises(ConfigError, match="is not a share"):
        split_documents(["a", "b"], share)
    with pytest.raises(ConfigError, match="is not a share"):
        split_pairs([("a", "b")], share)


def test_too_little_to_hold_out_is_told():
    with pytest.raises(
        TextError, match=r"too few to hold out 10% of them; .*--held-out.*held_out=0"
    ):
        split_documents(["abc"], 0.1)
    with pytest.raises(TextError, match="2 pairs fall into 1 that have nothing in common"):
        split_pairs([("a", "b"), ("A", "c")], 0.5)
