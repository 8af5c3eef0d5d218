"""Tokens in the original text: their characters, byte pieces, special tokens, ids decoded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from see_help import byte_tokenizer, word_tokenizer

import headwise as hw
from headwise.hub.tokenizer import adapt
from headwise.names import ModelError, TextError
from headwise.see.texts.tokens import Token, number_parts, tokenize, tokens_of_ids

BYTES = byte_tokenizer()


def labels(tokens: tuple[Token, ...]) -> list[str]:
    return [token.label for token in tokens]


def test_byte_pieces_are_numbered_and_carry_the_whole_character() -> None:
    tokens = tokenize(BYTES, "a书!")
    assert labels(tokens) == ["a", "书·1", "书·2", "书·3", "!"]
    assert [(t.start, t.end) for t in tokens] == [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]
    assert [t.part for t in tokens] == [None, (1, 3), (2, 3), (3, 3), None]


def test_a_first_piece_with_the_space_before_belongs_to_its_character() -> None:
    pieces = [
        Token(1, " 书", 4, 6),
        Token(2, "书", 5, 6),
        Token(3, "书", 5, 6),
        Token(4, "书", 6, 7),
    ]
    assert [t.part for t in number_parts(pieces)] == [(1, 3), (2, 3), (3, 3), None]


def test_the_same_character_twice_is_numbered_twice() -> None:
    assert labels(tokenize(BYTES, "书书")) == ["书·1", "书·2", "书·3"] * 2


@pytest.mark.parametrize(
    ("token", "label"),
    [
        (" the", "the"),
        (" ", "␣"),
        ("\n\n", "⏎⏎"),
        ("\t", "⇥"),
        ("a\nb", "a⏎b"),
        ("New York", "New York"),
        ("\u200d", "U+200D"),
        ("", "∅"),
        ("\U0001f3fd", "U+1F3FD"),
        (" \U0001f3fd", "U+1F3FD"),
        ("\u200d\ufe0f", "U+200D U+FE0F"),
        ("\u0301", "U+0301"),
        ("👩\U0001f3fd", "👩\U0001f3fd"),
        ("e\u0301", "e\u0301"),
        ("^", "^"),
    ],
)
def test_labels(token: str, label: str) -> None:
    assert Token(0, token, 0, len(token)).label == label


def test_the_byte_pieces_of_a_modifier_are_named_and_keep_its_characters() -> None:
    tokens = tokenize(BYTES, "👍\U0001f3fd")
    assert labels(tokens)[4:] == [f"U+1F3FD·{piece}" for piece in (1, 2, 3, 4)]
    assert [token.text for token in tokens[4:]] == ["\U0001f3fd"] * 4


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1).filter(lambda s: bool(s.strip())))
def test_every_token_is_its_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        with pytest.raises(TextError, match=r"not UTF-8 \(character \d+\)"):
            tokenize(BYTES, text)
        return
    tokens = tokenize(BYTES, text)
    assert all(text[t.start : t.end] == t.text for t in tokens)
    assert len(tokens) == len(text.encode())
    assert sorted({t.start for t in tokens}) == list(range(len(text)))


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), min_size=1))
def test_ids_decode_to_the_text_they_came_from(text: str) -> None:
    """Bytes merged: a batch of ids shows Chinese as Chinese."""
    expected = tokenize(BYTES, text) if text.strip() else None
    again, tokens = tokens_of_ids(BYTES, BYTES.encode(text).ids)
    assert again == text
    assert expected is None or tokens == expected


def test_special_ids_stand_for_no_text() -> None:
    special = BYTES.token_to_id("<s>")
    text, tokens = tokens_of_ids(BYTES, [special, *BYTES.encode("书").ids, special])
    assert text == "书"
    assert labels(tokens) == ["<s>", "书·1", "书·2", "书·3", "<s>"]
    assert [(t.start, t.end, t.special) for t in (tokens[0], tokens[-1])] == [
        (0, 0, True),
        (1, 1, True),
    ]


def test_added_tokens_that_are_not_special_are_text() -> None:
    made = byte_tokenizer()
    made.add_tokens(["zz"])
    text, tokens = tokens_of_ids(made, made.encode("a zz").ids)
    assert text == "a zz"
    assert [(t.text, t.special) for t in tokens][-1] == ("zz", False)


def test_bytes_of_no_character_are_shown_as_such() -> None:
    half = BYTES.encode("书").ids[:2]
    text, tokens = tokens_of_ids(BYTES, [*half, *BYTES.encode("ab").ids])
    assert text.endswith("ab")
    assert len(tokens) == 4
    assert "".join(t.text for t in tokens[2:]).endswith("b")
    special = BYTES.token_to_id("<s>")
    for ids in (half, [*half, special, *half]):
        _, tokens = tokens_of_ids(BYTES, ids)
        assert [t.id for t in tokens] == ids


def test_ids_without_a_tokenizer_are_words_by_themselves() -> None:
    text, tokens = tokens_of_ids(None, [12, 345, 6])
    assert text == "12 345 6"
    assert [text[t.start : t.end] for t in tokens] == ["12", "345", "6"] == [t.text for t in tokens]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty"),
        (" \n\t", "the text is empty"),
        (b"bytes", "must be a string, came bytes"),
        (None, "must be a string, came NoneType"),
        ("a\udcff", r"not UTF-8 \(character 1\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_text(text: object, message: str) -> None:
    with pytest.raises(TextError, match=message):
        tokenize(BYTES, text)  # type: ignore[arg-type]


def test_texts_are_neither_cut_nor_padded_silently() -> None:
    """A saved tokenizer may ask for both; the record shows the whole text and nothing else."""
    made = byte_tokenizer()
    made.enable_truncation(3)
    made.enable_padding(length=8, pad_token="<s>", pad_id=256)
    adapted = adapt(made)
    assert adapted is not None
    assert labels(tokenize(adapted, "abcde")) == list("abcde")
    assert made.truncation is not None  # the user's own is left as it was


class _SlowOne:
    """A tokenizer as transformers' slow ones are: words to ids and back, no offsets."""

    all_special_ids = (0,)
    all_special_tokens = ("<s>",)
    words = ("<s>", "the", "cat", "sat")

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [0, *(self.words.index(w) for w in text.split())]}

    def decode(self, ids: list[int], **_: object) -> str:
        return " ".join(self.words[i] for i in ids)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[i] for i in ids]


def test_a_slow_tokenizer_maps_to_characters_too() -> None:
    slow = adapt(_SlowOne())
    assert slow is not None
    text = "the  cat sat"
    tokens = tokenize(slow, text)
    assert [(t.text, t.start, t.end) for t in tokens] == [
        ("<s>", 0, 0),
        ("the", 0, 3),
        ("cat", 5, 8),
        ("sat", 9, 12),
    ]
    again, back = tokens_of_ids(slow, [0, 1, 3])
    assert again == "the sat"
    assert labels(back) == ["<s>", "the", "sat"]


def test_what_is_no_tokenizer() -> None:
    with pytest.raises(ModelError, match="one of tokenizers or transformers, came dict"):
        adapt({})


def test_tokenizers_in_three_ways() -> None:
    from transformers import PreTrainedTokenizerFast

    made = word_tokenizer("the", "cat")
    for tokenizer in (made, PreTrainedTokenizerFast(tokenizer_object=made)):
        adapted = adapt(tokenizer)
        assert adapted is not None
        assert labels(tokenize(adapted, "the cat")) == ["the", "cat"]
    assert adapt(None) is None


def test_a_batch_of_ids_and_the_text_give_the_same_record(bytes_model: hw.Model) -> None:
    text = "it 书"
    record = hw.look(bytes_model, text)
    import torch

    (again,) = hw.look(bytes_model, {"input_ids": torch.tensor([BYTES.encode(text).ids])})
    assert again.tokens == record.tokens
    assert again.text == text
