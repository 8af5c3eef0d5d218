"""Words by their characters as units of tokens: merged pieces, byte pieces, Chinese, the first token."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.see.texts.tokens import Token
from headwise.see.texts.units import UnitMap, split_at, units_of

SPECIAL = Token(0, "[CLS]", 0, 0, special=True)


def tokens_of(*pieces: str, special: bool = True) -> list[Token]:
    """Tokens that make a text one after the other, behind a special one."""
    ends = list(accumulate(map(len, pieces), initial=0))
    found = [
        Token(1, piece, end - len(piece), end) for piece, end in zip(pieces, ends[1:], strict=True)
    ]
    return [SPECIAL, *found] if special else found


def words_in(text: str, *words: str) -> list[tuple[int, int]]:
    found, at = [], 0
    for word in words:
        at = text.index(word, at)
        found.append((at, at + len(word)))
        at += len(word)
    return found


def test_a_word_is_the_tokens_that_hold_it() -> None:
    tokens = tokens_of("The", " ani", "mal", " ran", ".")
    words = words_in("The animal ran.", "The", "animal", "ran", ".")
    assert units_of(words, tokens) == UnitMap(((1, 2), (2, 4), (4, 5), (5, 6)), (0, 1, 2, 3))


def test_a_token_that_holds_several_words_makes_one_unit_of_them() -> None:
    text = "小明还书，因为它到期了"
    tokens = tokens_of("小", "明", "还书", "，", "因为它", "到", "期", "了")
    words = words_in(text, "小明", "还", "书", "，", "因为", "它", "到期", "了")
    found = units_of(words, tokens)
    assert found.ranges == ((1, 3), (3, 4), (4, 5), (5, 6), (6, 8), (8, 9))
    assert found.unit == (0, 1, 1, 2, 3, 3, 4, 5)


def test_pieces_across_words_join_their_neighbours() -> None:
    tokens = tokens_of("ab", "cd", "ef", "gh")
    assert units_of([(0, 3), (3, 5), (5, 6), (6, 8)], tokens) == UnitMap(
        ((1, 4), (4, 5)), (0, 0, 0, 1)
    )


def test_byte_pieces_of_a_character_are_one_unit() -> None:
    pieces = [Token(1, "书", 0, 1, part=(i, 3)) for i in (1, 2, 3)]
    assert units_of([(0, 1), (1, 2)], [SPECIAL, *pieces, Token(2, "了", 1, 2)]) == UnitMap(
        ((1, 4), (4, 5)), (0, 1)
    )


@pytest.mark.parametrize(
    ("pieces", "ranges", "unit"),
    [
        (("The", " cat"), ((1, 2),), (-1, 0)),
        (("T", "he", " cat"), ((1, 2), (2, 3)), (0, 1)),
        (("The c", "at"), ((1, 2),), (-1, 0)),
        (("The cat",), (), (-1, -1)),
    ],
)
def test_the_first_token_is_of_no_unit(pieces, ranges, unit) -> None:
    tokens = tokens_of(*pieces, special=False)
    assert units_of([(0, 3), (4, 7)], tokens) == UnitMap(ranges, unit)


def test_a_piece_of_a_text_has_the_words_it_holds() -> None:
    words = words_in("one two three", "one", "two", "three")
    piece = [SPECIAL, *tokens_of("one", " t", "wo", " three", special=False)[2:], SPECIAL]
    assert units_of(words, piece) == UnitMap(((1, 2), (2, 3)), (-1, 0, 1))


def test_words_that_share_characters_are_one_unit() -> None:
    assert units_of([(0, 2), (0, 2), (2, 3)], tokens_of("du", "x")).unit == (0, 0, 1)


def test_a_special_token_within_a_word_ends_its_unit() -> None:
    tokens = [
        SPECIAL,
        Token(1, "un", 0, 2),
        Token(0, "[S]", 2, 2, special=True),
        Token(2, "do", 2, 4),
    ]
    assert units_of([(0, 4)], tokens) == UnitMap(((1, 2),), (0,))
    inside = [SPECIAL, Token(0, "[S]", 2, 2, special=True)]
    assert units_of([(0, 4)], inside) == UnitMap((), (-1,))


def test_a_word_within_another_that_no_token_holds_has_no_unit() -> None:
    tokens = [SPECIAL, Token(1, "ab", 0, 2), Token(1, "def", 3, 6)]
    assert units_of([(0, 6), (2, 3)], tokens) == UnitMap(((1, 3),), (0, -1))


def test_words_are_split_where_an_annotation_ends() -> None:
    assert split_at([(0, 4), (5, 9)], [4, 7, 7, 8, 20]) == ((0, 4), (5, 7), (7, 8), (8, 9))


def spans_from(draw: st.DrawFn, length: int, gaps: bool) -> list[tuple[int, int]]:
    borders = sorted(draw(st.sets(st.integers(0, length))))
    spans = list(pairwise(borders))
    return [span for span in spans if not gaps or draw(st.booleans())]


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Token]]:
    """Words and tokens of a text, cut independently of one another; special ones anywhere."""
    length = draw(st.integers(1, 30))
    tokens: list[Token] = []
    for start, end in spans_from(draw, length, draw(st.booleans())):
        if draw(st.integers(0, 9)) == 0:
            tokens.append(Token(0, "[S]", start, start, special=True))
        tokens.extend([Token(1, "x", start, end)] * draw(st.sampled_from([1, 1, 1, 2])))
    return spans_from(draw, length, draw(st.booleans())), tokens


@given(texts())
def test_units_of_any_text(drawn) -> None:
    words, tokens = drawn
    found = units_of(words, tokens)
    covered = [token for first, last in found.ranges for token in range(first, last)]
    assert covered == sorted(set(covered))  # in order, without overlap
    assert 0 not in covered
    assert not any(tokens[at].special for at in covered)
    assert set(found.unit) - {-1} == set(range(len(found.ranges)))
    for at in covered:  # every token of a unit holds something of a word of it
        unit = next(i for i, (first, last) in enumerate(found.ranges) if first <= at < last)
        assert any(
            found.unit[w] == unit and start < tokens[at].end and end > tokens[at].start
            for w, (start, end) in enumerate(words)
        )
    for (start, end), unit in zip(words, found.unit, strict=True):
        usable = [t for t in tokens[1:] if not t.special and t.start < end and t.end > start]
        assert (unit >= 0) == bool(usable)
    order = [unit for unit in found.unit if unit >= 0]
    assert order == sorted(order)
