"""The heads of real models, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_help import Cli

pytestmark = pytest.mark.models

NAMES = ["Ann", "Ben", "Eve", "Kim", "Leo", "Mia", "Tom", "Sam", "Joe", "Amy", "Max", "Ray"]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    lines = [
        f"{name} {verb} that the old house was too cold for the cat of {name}."
        for name in NAMES
        for verb in ("said", "knew", "thought")
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_heads_of_the_default_model(cli: Cli, story: Path, tmp_path: Path) -> None:
    """Previous-token, induction and duplicate heads come out first, with the scores known of them."""
    out = tmp_path / "roles.json"
    answer = cli("roles", story, "--lines", "-o", out, "--head", "18.6", "--top", "2")
    assert answer.code == 0
    data = json.loads(out.read_text(encoding="utf-8"))
    best = {probe["probe"]: probe["best"] for probe in data["probes"]}
    assert [role["head"] for role in best["induction_random"][:3]] == ["18.6", "17.3", "17.4"]
    assert [role["head"] for role in best["same_token_random"][:2]] == ["14.3", "8.0"]
    assert best["previous"][0]["head"] == "16.0"
    scores = [
        role["score"] for role in best["induction_random"][:3] + best["same_token_random"][:2]
    ]
    assert scores == pytest.approx([0.91, 0.81, 0.78, 0.78, 0.74], abs=0.05)
    shown = {head["id"]: head["shown"] for head in data["heads"]}
    assert [shown[id] for id in ("18.6", "14.3", "16.0")] == [
        "induction_random",
        "same_token_random",
        "previous",
    ]
    assert "18.6 induction_random (KV group 2)" in " ".join(answer.out.split())


def test_a_chinese_file_and_an_encoder(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "书.txt"
    path.write_text(
        "\n".join(f"小明把{c}还给了图书馆。" for c in "书报笔刀钱纸本画车伞灯锅"), encoding="utf-8"
    )
    out = tmp_path / "roles.md"
    answer = cli("roles", path, "--lines", "-m", "e5-small", "-o", out, "--head", "3.1")
    assert answer.code == 0
    assert "图书馆" in answer.out
    assert "| next |" in out.read_text(encoding="utf-8")


def test_a_model_that_reads_no_text(cli: Cli, story: Path) -> None:
    answer = cli("roles", story, "-m", "whisper-tiny-en")
    assert (answer.code, answer.out) == (1, "")
    assert "whisper-tiny-en reads input_features, not text" in answer.err
