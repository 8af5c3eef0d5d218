"""Tokenizers: text comes back byte for byte, special names are text, and who does not fit is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_help import letters

from headwise.names import ConfigError, ModelError, TextError
from headwise.train.data import byte_bpe, check_vocabulary, encoded, tokenizer_of

TEXTS = ["the cat and the hat", "她看了一本书，很好。", "the end <|endoftext|>", ""]
MADE = byte_bpe(TEXTS * 3, 300)


@given(st.text())
def test_any_text_comes_back(text):
    ids = encoded(MADE, [text])[0].tolist()
    assert MADE.decode(ids, skip_special_tokens=False) == text


def test_every_byte_has_an_id_and_special_tokens_the_first():
    made = byte_bpe(TEXTS, 260, ("<|end|>", "<|mask|>"))
    assert made.get_vocab_size() == 260
    assert [made.token_to_id(name) for name in ("<|end|>", "<|mask|>")] == [0, 1]
    assert byte_bpe(TEXTS, 100_000).get_vocab_size() < 400
    assert byte_bpe(TEXTS * 3, 300).to_str() == MADE.to_str()


def test_what_occurs_often_becomes_a_piece():
    made = byte_bpe(["很好 " * 50], 270)
    assert len(encoded(made, ["很好"])[0]) == 1


def test_texts_are_read_in_parts_and_progress_is_told(monkeypatch):
    import headwise.train.data.tokenizing as room

    monkeypatch.setattr(room, "_PART", 40)
    told: list[tuple[int, int]] = []
    found = encoded(MADE, TEXTS * 5, lambda done, of: told.append((done, of)))
    assert [one.tolist() for one in found] == [
        MADE.encode(text).ids if "<|" not in text else encoded(MADE, [text])[0].tolist()
        for text in TEXTS * 5
    ]
    total = sum(map(len, TEXTS * 5))
    assert told[-1] == (total, total)
    assert len(told) > 2
    assert told == sorted(told)


def test_a_special_name_in_a_text_is_text_and_the_tokenizer_stays_as_it_is():
    before = MADE.to_str()
    assert MADE.token_to_id("<|endoftext|>") not in encoded(MADE, ["a <|endoftext|> b"])[0]
    assert MADE.to_str() == before
    assert MADE.encode("<|endoftext|>").ids == [0]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ((TEXTS, 256), ConfigError, "vocab_size=256 is too small"),
        ((TEXTS, 300, ("<a>", "<a>")), ConfigError, "must be different names"),
        (([], 300), TextError, "no text to make a tokenizer of"),
        (([""], 300), TextError, "no text to make a tokenizer of"),
    ],
)
def test_what_makes_no_tokenizer_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        byte_bpe(*given)


def test_a_tokenizer_is_read_from_a_file_or_a_folder(tmp_path):
    MADE.save(str(tmp_path / "tokenizer.json"))
    for place in (tmp_path, tmp_path / "tokenizer.json", str(tmp_path)):
        assert tokenizer_of(place).to_str() == MADE.to_str()
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ModelError, match=r"other\.json cannot be read as a tokenizer\.json"):
        tokenizer_of(other)
    with pytest.raises(ModelError, match="no file or folder"):
        tokenizer_of(tmp_path / "missing")


def test_a_vocabulary_that_does_not_fit_is_told_with_both_sizes():
    check_vocabulary(MADE, MADE.get_vocab_size())
    with pytest.raises(ConfigError, match=r"has 28 ids and the model embeds vocab_size=27; .*=28"):
        check_vocabulary(letters(), 27)


def test_letters_that_a_tokenizer_does_not_know_are_told():
    with pytest.raises(TextError, match="the tokenizer cannot read these texts"):
        encoded(letters(), ["A"])


def test_ctrl_c_stops_making_a_tokenizer():
    script = (
        "import random; from headwise.train.data import byte_bpe\n"
        "chosen = random.Random(0).choices\n"
        "texts = [''.join(chosen('abcdefghijklmnop', k=200_000)) for _ in range(8)]\n"
        "print('ready', flush=True)\n"
        "byte_bpe(texts, 60_000)\nprint('made')"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.5)
    os.kill(run.pid, signal.SIGINT)
    out, error = run.communicate(timeout=20)
    assert "made" not in out
    assert "KeyboardInterrupt" in error
