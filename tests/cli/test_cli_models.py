"""The main job on real models, through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_help import SENTENCE, Cli, run

from headwise.hub.get import get

pytestmark = pytest.mark.models


def test_json_of_the_default_model() -> None:
    found = run("look", SENTENCE, "--json", "-").data
    assert found["model"] == "smollm2"
    assert found["text"] == SENTENCE
    assert [h["id"] for h in found["heads"]] == [f"{i}.{h}" for i in range(30) for h in range(9)]
    assert all(SENTENCE[t["start"] : t["end"]] == t["text"] for t in found["tokens"])
    assert found["verified"] <= 1e-4
    does = {head["id"]: head["does"] for head in found["heads"]}
    assert does["16.0"] == does["11.1"] == "previous"


def test_what_is_shown(cli: Cli) -> None:
    answer = cli("look", SENTENCE)
    shown = " ".join(answer.out.split())
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "smollm2: 30 layers x 9 heads (3 KV heads)" in shown
    assert "verified: recomputed head outputs within" in shown
    assert "animal 0.95" in shown
    assert "street 0.68" in shown


def test_what_a_word_looks_at(cli: Cli) -> None:
    shown = " ".join(cli("look", SENTENCE, "--word", "it").out.split())
    assert "(12 of 270 heads)" in shown
    assert "animal 0.75" in shown


def test_chinese_through_another_model(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "maps.png"
    text = "小明把书还给了图书馆,因为它到期了。"
    answer = cli(
        "look", text, "--model", "e5-small", "--word", "它", "--head", "3.1", "--png", path
    )
    assert answer.code == 0
    assert "the tokens of '它' hold more than it: '因为它'" in answer.out
    assert "图书馆" in answer.out
    assert path.stat().st_size > 5000


def test_an_encoder_by_name_and_by_folder(cli: Cli) -> None:
    by_name = cli("look", SENTENCE, "--model", "minilm", "--json", "-").data
    by_folder = cli("look", SENTENCE, "--model", get("minilm"), "--json", "-").data
    assert len(by_name["heads"]) == 72
    assert by_name["heads"] == by_folder["heads"]


def test_a_model_that_reads_no_text(cli: Cli) -> None:
    """Whisper listens: a text alone is nothing it can read, and the answer says so."""
    answer = cli("look", SENTENCE, "--model", "whisper-tiny-en")
    assert (answer.code, answer.out) == (1, "")
    line = answer.err.strip().splitlines()[-1]  # the first time, what is fetched is said before
    assert line.startswith("headwise: whisper-tiny-en reads input_features, not text")


def test_a_text_of_ten_thousand_words(cli: Cli) -> None:
    answer = cli("look", "word " * 10_000)
    assert answer.code == 1
    assert "the text is 10001 tokens long, smollm2 reads at most 8192" in answer.err


def test_bfloat16(cli: Cli) -> None:
    found = cli("look", SENTENCE, "--dtype", "bfloat16", "--json", "-").data
    assert len(found["heads"]) == 270
    assert 0 < found["verified"] < 0.5
