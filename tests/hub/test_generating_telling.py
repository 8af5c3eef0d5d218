"""Text that is told while it is written: whole characters, and stop strings wherever they lie in the tokens."""

from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from headwise.hub.generating.telling import Telling


def byte_level() -> tokenizers.Tokenizer:
    """A token for each byte, some of several bytes that begin or end within a character, and <end>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    first, second = (level.pre_tokenize_str(c)[0][0] for c in "字中")
    odd = [first[1:] + second[0], first[:2], "ab", "b" + second[:1]]
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, *odd])}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made


def byte_fallback() -> tokenizers.Tokenizer:
    """As sentencepiece has it: ▁ for spaces, and a run of byte tokens for what has no token."""
    pieces = [
        "<s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        "▁",
        *map(chr, range(33, 127)),
        "▁a",
        "ab",
    ]
    made = tokenizers.Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, [], byte_fallback=True)
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(["<s>"])
    return made


BYTES, FALLBACK = byte_level(), byte_fallback()
PIECES = BYTES.get_vocab()
TEXTS = st.text(alphabet="ab 字中é👩\n", max_size=14)


def of_bytes(text: str, ways: list[int]) -> list[int]:
    """Ids whose bytes are the text's, longer tokens taken where `ways` says so."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    left = "".join(piece for piece, _ in level.pre_tokenize_str(text))
    ids = []
    while left:
        size = next((n for n in (3, 2) if left[:n] in PIECES and len(left) >= n), 1)
        size = size if (ways.pop() if ways else 1) else 1
        ids.append(PIECES[left[:size]])
        left = left[size:]
    return ids


def of_fallback(text: str) -> list[int]:
    vocabulary = FALLBACK.get_vocab()
    ids = []
    for character in text.replace(" ", "▁"):
        known = vocabulary.get(character)
        raw = [vocabulary[f"<0x{byte:02X}>"] for byte in character.encode()]
        ids += raw if known is None else [known]
    return ids


def told(tokenizer, before, ids, stops=()) -> tuple[list[str], Telling]:
    telling = Telling(tokenizer, before, stops)
    pieces = [telling.take(id) for id in ids]
    return [*pieces, telling.finish()], telling


def cut(text: str, stops: list[str]) -> str:
    """The text up to the first stop string that is whole, read character by character."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@given(before=TEXTS, text=TEXTS, ways=st.lists(st.integers(0, 1)))
def test_every_piece_is_whole_characters_and_all_pieces_are_the_text(before, text, ways):
    for tokenizer, ids in ((BYTES, of_bytes(text, ways)), (FALLBACK, of_fallback(text))):
        encode = of_fallback if tokenizer is FALLBACK else lambda t: of_bytes(t, [])
        pieces, telling = told(tokenizer, encode("a" + before), ids)
        assert "".join(pieces) == telling.text == text
        assert "\ufffd" not in "".join(pieces)


@given(
    text=TEXTS,
    stops=st.lists(st.text(alphabet="ab 字中é", min_size=1, max_size=3), min_size=1, max_size=3),
    ways=st.lists(st.integers(0, 1)),
)
def test_a_stop_string_cuts_wherever_it_lies(text, stops, ways):
    for tokenizer, ids in ((BYTES, of_bytes(text, ways)), (FALLBACK, of_fallback(text))):
        pieces, telling = told(tokenizer, [], ids, stops)
        wanted = cut(text, stops)
        if tokenizer is FALLBACK and text.startswith(" "):
            continue  # the first space of a whole text is no part of it
        assert "".join(pieces) == telling.text == wanted


@given(st.lists(st.sampled_from(["a", "b", "ab", "abcab", "bc", "cc"]), max_size=6))
def test_of_two_stop_strings_in_one_token_the_one_that_is_whole_first_cuts(pieces):
    class Words:
        def decode(self, ids, skip_special_tokens):
            return "".join(pieces[id] for id in ids)

    text = "".join(pieces)
    for stops in (["abc", "b"], ["abca", "bc"], ["cab", "ca"]):
        assert told(Words(), [], range(len(pieces)), stops)[1].text == cut(text, stops)


def test_text_waits_only_as_long_as_it_must():
    ids = of_bytes("ab字 no", [0] * 9)
    pieces, _ = told(BYTES, [], ids, ["b字!"])
    assert pieces == ["a", "", "", "", "", "b字 ", "n", "o", ""]
    pieces, telling = told(BYTES, [], of_bytes("a字字b", []), ["字"])
    assert "".join(pieces) == "a"
    assert telling.stopped


def test_bytes_that_are_no_character_do_not_hold_the_text_back_for_ever():
    bad = PIECES[pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("字")[0][0][1]]
    pieces, _ = told(BYTES, [], [bad] * 40)
    assert "".join(pieces) == "\ufffd" * 39
    assert len("".join(pieces[:20])) > 9
    pieces, _ = told(BYTES, [], [bad] * 3 + of_bytes("字a", []))
    assert "".join(pieces) == "\ufffd" * 3 + "字a"


def test_half_a_character_at_the_end_is_left_out():
    for tokenizer, ids in ((BYTES, of_bytes("a字中", [])), (FALLBACK, of_fallback("a字中"))):
        for missing in (1, 2):
            assert "".join(told(tokenizer, [], ids[:-missing])[0]) == "a字"


@pytest.mark.parametrize("tokenizer", [BYTES, FALLBACK])
def test_a_special_token_is_no_text_and_costs_no_space(tokenizer):
    special = tokenizer.token_to_id("<end>" if tokenizer is BYTES else "<s>")
    ids = of_bytes("a", []) if tokenizer is BYTES else of_fallback("a")
    space = of_bytes(" b", []) if tokenizer is BYTES else of_fallback(" b")
    pieces, _ = told(tokenizer, [special, *ids], [special, *space])
    assert "".join(pieces) == " b"
