"""headwise rank: the table of the library as a grid, a list, files and a picture; several methods side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_help import Cli

import headwise as hw
from headwise.cli.rank.command import METHODS
from headwise.cut.ranking.importance import importance
from headwise.cut.ranking.methods import METHODS as KNOWN
from headwise.show.palette import SHADES

TEXTS = [
    "It is a cat at a mat.", "It sat. It sat.", "小明把书还给了图书馆。", "A bat, a hat, a cat.",
    "It is it.", "a mat at a cat", "Sat it at a bat?", "at at at at",
]  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def test_the_methods_are_those_of_the_library() -> None:
    assert tuple(KNOWN) == METHODS


def test_a_ranking_in_every_kind_of_file(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    wanted = importance(hw.load(folder), TEXTS, "fisher", quiet=True)["importance"].values
    options = ("-m", folder, "--lines", "--method", "fisher")
    for kind in (".nc", ".csv", ".json", ".parquet"):
        out = tmp_path / f"scores{kind}"
        answer = cli("rank", corpus, *options, "-o", out)
        assert answer.code == 0, answer.err
        assert f"wrote {out}" in answer.err
    from headwise.cut.ranking.files import load_importance

    back = load_importance(tmp_path / "scores.nc")
    np.testing.assert_allclose(back["importance"].values, wanted, rtol=1e-6)
    frame = pd.read_csv(tmp_path / "scores.csv")
    np.testing.assert_allclose(frame["importance"], wanted.reshape(-1), rtol=1e-5)
    held = json.loads((tmp_path / "scores.json").read_text())
    assert held["about"]["method"] == "fisher"


def test_the_grid_and_the_list(cli: Cli, folder: Path, corpus: Path) -> None:
    answer = cli("rank", corpus, "-m", folder, "--lines", "--top", "2")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    table = importance(hw.load(folder), TEXTS, "gate", quiet=True)
    values = table["importance"].values
    order = np.argsort(-values, axis=None)
    ids = [f"{i // 6}.{i % 6}" for i in order]
    (strong,) = [line for line in lines if line.startswith("strongest")]
    (weak,) = [line for line in lines if line.startswith("weakest")]
    assert [word for word in strong.split() if word in ids] == ids[:2]
    assert [word for word in weak.split() if word in ids] == ids[::-1][:2]
    rows = [line for line in lines if line.startswith(("    0 ", "    1 "))]
    cells = [cell for row in rows for cell in row[6:].replace("│", "").split()]
    shade = {id: SHADES.index(cells[int(id[0]) * 6 + int(id[2])]) for id in ids}
    steps = [shade[id] for id in ids]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == len(SHADES) - 1
    told = " ".join(answer.out.split())
    assert f"rank correlation {table.attrs['stability']:.3f}" in told
    assert "8 texts" in told


def test_chosen_heads_and_a_picture(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    svg = tmp_path / "heads.svg"
    options = ("-m", folder, "--lines", "--heads", "0.*", "--heads", "1.2", "--json", "-")
    found = cli("rank", corpus, *options, "--svg", svg).data
    assert {head["id"] for head in found["heads"]} == {*(f"0.{i}" for i in range(6)), "1.2"}
    values = [head["importance"] for head in found["heads"]]
    assert values == sorted(values, reverse=True)
    text = svg.read_text(encoding="utf-8")
    assert "no such head" in text
    assert "texts.txt" in text
    words = " ".join(re.findall(r"<!-- (.*?) -->", text) or re.findall(r">([^<>]+)</text>", text))
    assert (
        "Importance by gate (mean" in words
    )  # what it is stands in the caption, not beside the scale
    assert re.search(r"[>\s]importance[<\s]", text)


def test_several_methods_are_compared(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranks.csv"
    options = ("-m", folder, "--lines", "--method", "gate", "--method", "leave-one-out")
    answer = cli("rank", corpus, *options, "-o", out)
    assert answer.code == 0, answer.err
    frame = pd.read_csv(out)
    alike = frame["gate"].corr(frame["leave-one-out"], method="spearman")
    (row,) = [line for line in answer.out.splitlines() if line.startswith(" 1 gate")]
    assert float(row.split()[-1]) == pytest.approx(alike, abs=0.006)
    found = cli("rank", corpus, *options, "--json", "-").data
    assert found["correlations"]["gate"]["leave-one-out"] == pytest.approx(alike, abs=1e-4)
    assert set(found["rankings"]) == {"gate", "leave-one-out"}


def test_an_interrupt_shows_what_was_measured(
    cli: Cli, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.cut.ranking import importance as home

    real = home.importance

    def stopped(*given: object, **named: object) -> object:
        table = real(*given, **named)  # type: ignore[arg-type]
        table.attrs["stopped"] = "interrupted"
        return table

    monkeypatch.setattr("headwise.cli.rank.running.importance", stopped)
    answer = cli("rank", corpus, "-m", folder, "--lines", "--method", "all")
    assert answer.code == 130
    assert "interrupted; this is of what was measured before" in answer.err
    assert " 1 gate" in answer.out
    assert "fisher" not in answer.out
    out = folder.parent / "scores.csv"
    out.write_text("a whole ranking")
    assert cli("rank", corpus, "-m", folder, "--lines", "-o", out).code == 130
    assert out.read_text() == "a whole ranking"
    assert (folder.parent / "scores.part.csv").read_text().startswith("stream,layer")


MISTAKES = {
    "Missing argument 'FILES...'": [],
    "'best' is not one of": ["CORPUS", "--method", "best"],
    "missing.txt cannot be read": ["missing.txt"],
    "0.9 is not there": ["CORPUS", "--heads", "0.9"],
    "'a.b' is no head id": ["CORPUS", "--heads", "a.b"],
    "must end in one of .nc, .csv, .parquet, .json": ["CORPUS", "-o", "x.txt"],
    "a picture is of one method": ["CORPUS", "--method", "all", "--png", "x.png"],
    "x.nc holds one ranking": ["CORPUS", "--method", "all", "-o", "x.nc"],
    "-o and --json hold the same": ["CORPUS", "-o", "x.nc", "--json", "-"],
    "takes a head away for a whole row": ["CORPUS", "--per", "token", "--method", "leave-one-out"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("rank", *more, "-m", folder)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]


@pytest.mark.models
def test_an_encoder_has_no_loss_to_rank_by(cli: Cli, corpus: Path) -> None:
    answer = cli("rank", corpus, "-m", "minilm")
    assert answer.code == 1
    assert "minilm predicts no next token, so there is no loss to rank by" in answer.err


SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "In the morning the fishermen went out to sea, and in the evening they came back with empty nets.",
    "She had lived in the house for thirty years before the council told her that it was to be pulled down.",
    "Water boils at one hundred degrees, but on a high mountain it boils at fewer.",
    "When the king heard of this, he sent for his ministers and asked them what was to be done.",
    "The committee will publish its report in March, after the ministers have seen a draft of it.",
)


@pytest.mark.models
def test_a_real_model(cli: Cli, tmp_path: Path) -> None:
    """The first two layers of SmolLM2 write what all others build on."""
    texts = tmp_path / "sentences.txt"
    texts.write_text("\n".join(SENTENCES))
    options = ("--lines", "--method", "gate", "--png", tmp_path / "x.png", "--json", "-")
    found = cli("rank", texts, *options).data
    assert len(found["heads"]) == 270
    strongest = [head["id"] for head in found["heads"][:27]]
    assert sum(id.startswith(("0.", "1.")) for id in strongest) >= 12
    assert (tmp_path / "x.png").stat().st_size > 10_000
