"""headwise ablate: losses paired over rows, predictions within a text, and every mistake in one line."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_help import Cli

import headwise as hw
from headwise.cut.ablating.comparing import Measured, Sets

TEXTS = [
    "It is a cat at a mat.",
    "It sat. It sat.",
    "小明把书还给了图书馆。",
    "A bat, a hat, a cat.",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def test_the_losses_are_those_of_the_library(cli: Cli, folder: Path, corpus: Path) -> None:
    options = ("-m", folder, "--texts", corpus, "--lines", "--json", "-")
    found = cli("ablate", "0.1", "1.2-3", *options).data
    model = hw.load(folder)
    before = hw.loss(model, TEXTS)
    with hw.ablate(model, "0.1, 1.2-3"):
        after = hw.loss(model, TEXTS)
    assert found["heads"] == ["0.1", "1.2", "1.3"]
    (file,) = found["files"]
    assert (file["rows"], file["count"]) == (4, before.count)
    assert file["before"] == pytest.approx(before.mean, rel=1e-5)
    assert file["after"] == pytest.approx(after.mean, rel=1e-5)
    assert file["after"] != pytest.approx(file["before"], abs=1e-3)
    assert file["before_error"] == pytest.approx(before.standard_error, rel=1e-5)
    rows = file["rows_of"]
    weight = np.array([row["tokens"] for row in rows])
    change = np.array([row["after"] - row["before"] for row in rows])
    apart = weight * (change - file["change"])
    expected = np.sqrt((apart**2).sum() * 4 / 3) / weight.sum()
    assert file["change_error"] == pytest.approx(expected, rel=1e-4)


def test_the_change_is_paired(folder: Path) -> None:
    """Rows that differ much and change alike have a change that is known well."""
    before, counts = np.array([10.0, 50.0, 90.0]), np.array([10.0, 10.0, 10.0])
    change = Measured(before, before[None] + 2, counts).change()
    assert change.change == pytest.approx(0.2)
    assert change.change_error == pytest.approx(0)
    assert change.before_error > 1


def test_each_file_and_all_of_them(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("It is at it.")
    answer = cli("ablate", "1", "-m", folder, "--texts", corpus, "--texts", other, "--lines")
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    lines = {line.split()[0]: line.split() for line in answer.out.splitlines() if line}
    assert lines["texts.txt"][1] == "4"
    assert lines["other.txt"][1] == "1"
    assert lines["all"][1] == "5"
    said = " ".join(answer.out.split())  # a long path of the model breaks the line elsewhere
    assert "6 of 12 heads replaced by zero: 1.0-5" in said
    assert "one row has no standard error" in said


def test_nothing_changes_with_all_of_each_head_left(cli: Cli, folder: Path, corpus: Path) -> None:
    options = ("-m", folder, "--texts", corpus, "--factor", "1", "--json", "-")
    for how in ("zero", "mean", "resample", "uniform"):
        (file,) = cli("ablate", "*", "--how", how, *options).data["files"]
        assert file["change"] == pytest.approx(0, abs=1e-6)


def test_what_stands_in_comes_of_other_texts(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("zq zq zq zq zq")
    options = ("-m", folder, "--texts", corpus, "--lines", "--json", "-", "--how", "mean")
    (found,) = cli("ablate", "*", *options, "--from", other).data["files"]
    model = hw.load(folder)
    with hw.ablate(model, "*", "mean", texts=["zq zq zq zq zq"]):
        after = hw.loss(model, TEXTS)
    assert found["after"] == pytest.approx(after.mean, rel=1e-5)
    (own,) = cli("ablate", "*", *options).data["files"]
    assert own["after"] != pytest.approx(found["after"], abs=1e-4)


def test_random_heads_are_others_and_as_many(cli: Cli, folder: Path, corpus: Path) -> None:
    options = ("-m", folder, "--texts", corpus, "--lines", "--random", "3", "--json", "-")
    found = cli("ablate", "0.1", "1.2", *options).data
    assert len(found["random"]) == 3
    model = hw.load(folder)
    before = hw.loss(model, TEXTS).mean
    for draw in found["random"]:
        assert len(set(draw["heads"]) - {"0.1", "1.2"}) == 2
        with hw.ablate(model, draw["heads"]):
            assert draw["change"] == pytest.approx(hw.loss(model, TEXTS).mean - before, abs=1e-5)
    again = cli("ablate", "0.1", "1.2", *options).data
    assert again == found
    other = cli("ablate", "0.1", "1.2", *options, "--seed", "5").data
    assert other["random"] != found["random"]
    told = " ".join(cli("ablate", "0.1", "1.2", *options[:-2]).out.split())
    assert "as many random heads (3 draws of 2 among 10)" in told


def test_predictions_within_a_text(cli: Cli, folder: Path) -> None:
    text = "it is a cat 书"
    found = cli("ablate", "0.*", "-m", folder, "--text", text, "--json", "-").data
    model = hw.load(folder)
    batch = torch.tensor([[t.id for t in hw.look(model, text).tokens]])
    with torch.no_grad():
        before = model.outputs({"input_ids": batch})[0].log_softmax(-1)
        with hw.ablate(model, "0"):
            after = model.outputs({"input_ids": batch})[0].log_softmax(-1)
    apart = (before.exp() * (before - after)).sum(-1)
    told = found["predictions"]
    assert len(told) == batch.shape[1]
    for i, one in enumerate(told):
        assert one["divergence"] == pytest.approx(float(apart[i]), rel=1e-4)
        assert one["before"][0]["before"] == pytest.approx(float(before[i].exp().max()), rel=1e-4)
        assert one["after"][0]["after"] == pytest.approx(float(after[i].exp().max()), rel=1e-4)
        if i + 1 < len(told):
            share = float(after[i, batch[0, i + 1]].exp())
            assert one["actual"]["after"] == pytest.approx(share, rel=1e-4)
    assert told[-1]["actual"] is None
    answer = cli("ablate", "0.*", "-m", folder, "--text", text, "--top", "1")
    most = max(told, key=lambda one: one["divergence"])
    assert f"after {most['upto']}  " in answer.out
    assert answer.out.count("  before  ") == (1 if most is told[-1] else 2)


@pytest.fixture
def encoder(tmp_path: Path, folder: Path) -> Path:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=300, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    return tmp_path / "encoder"


def test_an_encoder_is_told_by_how_far_its_output_moves(
    cli: Cli, encoder: Path, corpus: Path
) -> None:
    options = ("-m", encoder, "--texts", corpus, "--lines", "--text", "it is a cat")
    found = cli("ablate", "1.*", *options, "--json", "-").data
    assert found["measure"] == "output moved, relative"
    model = hw.load(encoder)
    ids = torch.tensor([[t.id for t in hw.look(model, "it is a cat").tokens]])
    before = model.run({"input_ids": ids})
    with hw.ablate(model, "1"):
        after = model.run({"input_ids": ids})
    apart = ((after - before).norm(dim=-1) / before.norm(dim=-1))[0]
    told = [one["moved"] for one in found["moved"]]
    np.testing.assert_allclose(told, apart.numpy(), rtol=1e-4)
    assert 0 < found["files"][0]["change"] < 2
    shown = " ".join(cli("ablate", "1.*", *options).out.split())
    assert "the model predicts no next token, so this is how far its output vectors move" in shown
    assert "how far the output moves within the text" in shown


def test_ctrl_c_shows_what_was_measured(
    cli: Cli, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 20)
    measured, seen = Sets.measured, []

    def interrupted(self: Sets, batch: object) -> Measured:
        seen.append(batch)
        os.kill(os.getpid(), signal.SIGINT)
        return measured(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(Sets, "measured", interrupted)
    answer = cli("ablate", "0.1", "-m", folder, "--texts", corpus, "--lines")
    assert answer.code == 130
    assert len(seen) == 1
    assert "this is of what was measured before" in answer.err
    assert re.search(r"texts.txt +[123] ", answer.out)


MISTAKES = {
    "give something to measure on: --texts FILE": ["0.1"],
    "'x.y' is no head id": ["x.y", "--text", "a cat"],
    "0.9 is not there: layer 0 has the heads 0 to 5": ["0.9", "--text", "a cat"],
    "none.txt cannot be read": ["@none.txt", "--text", "a cat"],
    "it goes with --texts": ["0.1", "--text", "a cat", "--random", "2"],
    "--from is for --how mean and resample": ["0.1", "--text", "a cat", "--from", "CORPUS"],
    "--blocks cuts texts by itself": [
        "0.1",
        "--texts",
        "CORPUS",
        "--blocks",
        "9",
        "--context",
        "5",
    ],
    "a block is 900": ["0.1", "--texts", "CORPUS", "--blocks", "900"],
    "the text is empty": ["0.1", "--text", " "],
    "'none' is not one of": ["0.1", "--text", "a cat", "--how", "none"],
    "the JSON cannot be written to": ["0.1", "--text", "a cat", "--json", "missing/x.json"],
    "leave --target out": ["0.1", "--texts", "CORPUS", "--target", "CORPUS"],
    "all 12 of": ["*", "--texts", "CORPUS", "--lines", "--random", "2"],
    "18.5-3 runs backwards": ["18.5-3", "--text", "a cat"],
    "--factor must be a finite number": ["0.1", "--texts", "CORPUS", "--factor", "nan"],
    "Missing argument 'HEADS...'": ["--text", "a cat"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("ablate", "-m", folder, *more)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]


def test_what_is_left_of_the_heads_is_said(cli: Cli, folder: Path) -> None:
    def told(*options: str) -> str:
        answer = cli("ablate", "0.1-2", "-m", folder, "--text", "a cat", *options)
        return " ".join(answer.out.split())

    assert "2 of 12 heads replaced by zero: 0.1-2" in told()
    assert "2 of 12 heads left as they are (--factor 1): 0.1-2" in told("--factor", "1")
    half = "2 of 12 heads times 0.5, the rest of each replaced by zero: 0.1-2"
    assert half in told("--factor", "0.5")


def test_heads_from_a_file(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    path.write_text(json.dumps(["0.1", "1.4-5"]))
    found = cli("ablate", f"@{path}", "-m", folder, "--text", "a cat", "--json", "-").data
    assert found["heads"] == ["0.1", "1.4", "1.5"]


@pytest.mark.models
def test_induction_heads_of_a_real_model(cli: Cli) -> None:
    """Without them a name that stood before is no longer expected; as many other heads take less."""
    text = "Vexgrul met Drondale in Xanbridge. Later, Vexgrul met Drond"
    found = cli("ablate", "18.6-7", "17.3-5", "--text", text, "--json", "-").data
    end = found["predictions"][-1]
    others = cli("ablate", "18.0-1", "17.0-1", "17.8", "--text", text, "--json", "-").data
    assert end["divergence"] > 2 * others["predictions"][-1]["divergence"]
    assert end["before"][0]["token"] == "ale"
    assert end["before"][0]["after"] < end["before"][0]["before"]
