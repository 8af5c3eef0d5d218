"""Words against tokens, and Clark et al.'s rule from one to the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from see_help import byte_tokenizer, side_of, word_tokenizer

from headwise.names import TextError
from headwise.see.texts.tokens import Token, tokenize
from headwise.see.texts.words import Word, find_words, numbered, place_of, to_words, words_of

BYTES = byte_tokenizer()


def words(text: str) -> list[str]:
    return [word.text for word in words_of(text, tokenize(BYTES, text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The animal didn't cross.", ["The", "animal", "didn't", "cross", "."]),
        ("l’été, 3.14", ["l’été", ",", "3", ".", "14"]),
        ("它很累cat", ["它", "很", "累", "cat"]),
        ("かなカナ漢字", list("かなカナ漢字")),
        ("हिन्दी ไทย", ["हिन्दी", "ไทย"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("a\n\nb", ["a", "\n\n", "b"]),
        ("snake_case x2", ["snake_case", "x2"]),
        ("👍ok", ["👍", "ok"]),
    ],
)
def test_what_a_word_is(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_token_of_two_words_makes_them_one() -> None:
    text = "因为它到"
    tokens = (Token(0, "因为它", 0, 3), Token(1, "到", 3, 4))
    assert [w.text for w in words_of(text, tokens)] == ["因为它", "到"]


def test_special_tokens_are_words_by_themselves() -> None:
    side = side_of(["[CLS]", "the", "cat", "[SEP]"])
    assert [(w.text, w.special) for w in side.words] == [
        ("[CLS]", True),
        ("the", False),
        ("cat", False),
        ("[SEP]", True),
    ]


def test_clarks_rule_by_hand() -> None:
    """Tokens a | b c | d as words a, bc, d: columns are summed, rows averaged."""
    pattern = np.array(
        [
            [1.0, 0.0, 0.0, 0.0],
            [0.5, 0.5, 0.0, 0.0],
            [0.1, 0.3, 0.6, 0.0],
            [0.1, 0.2, 0.3, 0.4],
        ]
    )
    sides = [Word("a", 0, 1, 0, 1), Word("bc", 2, 4, 1, 3), Word("d", 5, 6, 3, 4)]
    expected = [[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.1, 0.5, 0.4]]
    np.testing.assert_allclose(to_words(pattern, sides, sides), expected)


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda s: bool(s.strip())),
    st.integers(0, 2**32 - 1),
)
def test_every_token_is_in_one_word_and_rows_still_sum_to_one(text: str, seed: int) -> None:
    tokens = tokenize(BYTES, text)
    found = words_of(text, tokens)
    covered = [i for word in found for i in range(word.first, word.last)]
    assert covered == list(range(len(tokens)))
    assert all(text[word.start : word.end] == word.text for word in found)
    pattern = np.random.default_rng(seed).dirichlet(np.ones(len(tokens)), len(tokens))
    by_words = to_words(pattern, found, found)
    assert by_words.shape == (len(found), len(found))
    np.testing.assert_allclose(by_words.sum(1), 1)


def find(text: str, wanted: str) -> list[tuple[str, int, str | None]]:
    places = find_words(text, words_of(text, tokenize(BYTES, text)), wanted)
    return [(word.text, word.start, note) for word, note in places]


def test_a_whole_word_comes_before_a_part_of_one() -> None:
    assert find("a bit of it", "it") == [("it", 9, None)]
    assert find("It is it", "it") == [("it", 6, None)]
    assert find("It is", "it") == [("It", 0, None)]


def test_a_word_that_stands_twice_is_found_twice() -> None:
    assert find("the cat the dog", "the") == [("the", 0, None), ("the", 8, None)]


def test_a_part_of_a_word_is_found_with_a_note() -> None:
    ((text, start, note),) = find("the animal", "nim")
    assert (text, start) == ("animal", 4)
    assert note == "the tokens of 'nim' hold more than it: 'animal'"


def test_a_part_that_stands_twice_in_a_word_is_one_place() -> None:
    assert len(find("banana", "an")) == 1


def test_several_words_are_one_place() -> None:
    assert find("across the street", "the street") == [("the street", 7, None)]


def test_a_token_that_holds_more_than_the_word_says_so() -> None:
    text = "因为它到"
    tokens = (Token(0, "因为它", 0, 3), Token(1, "到", 3, 4))
    ((word, note),) = find_words(text, words_of(text, tokens), "它")
    assert (word.text, word.first, word.last) == ("因为它", 0, 1)
    assert note == "the tokens of '它' hold more than it: '因为它'"


@pytest.mark.parametrize("wanted", ["dog", "", "  "])
def test_a_word_that_is_not_there(wanted: str) -> None:
    with pytest.raises(TextError, match=r"is not in the text; its words are: the, cat$"):
        find("the cat the", wanted)


def test_the_name_of_a_special_token_is_no_word() -> None:
    side = side_of(["[CLS]", "the"])
    with pytest.raises(TextError, match="is not in the text"):
        find_words(side.text, side.words, "[CLS]")


def test_word_pieces_are_put_together() -> None:
    text = "the cats don't"
    tokens = tokenize(word_tokenizer("the", "cat"), text)
    assert [t.text for t in tokens] == ["the", "cat", "s", "d", "o", "n", "'", "t"]
    assert [w.text for w in words_of(text, tokens)] == ["the", "cats", "don't"]


def test_which_word_holds_a_token_and_which_of_its_name_it_is() -> None:
    text = "ab cab c"
    tokens = [
        Token(i, text[a:b], a, b) for i, (a, b) in enumerate([(0, 1), (1, 2), (2, 6), (6, 8)])
    ]
    words = words_of(text, tokens)
    assert [word.text for word in words] == ["ab", "cab", "c"]
    assert [place_of(words, token) for token in range(4)] == [0, 0, 1, 2]
    assert numbered(["a", "b", "a"]) == ["a#1", "b", "a#2"]
