"""headwise prune: what was cut, what it costs and saves, and a folder that gives the same model again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cli_help import Cli

import headwise as hw

TEXTS = [
    "It is a cat at a mat.",
    "It sat. It sat.",
    "小明把书还给了图书馆。",
    "A bat, a hat, a cat.",
]
IDS = torch.arange(1, 30)[None]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS * 3), encoding="utf-8")
    return path


def logits(folder: Path) -> torch.Tensor:
    model = hw.load(folder)
    with torch.no_grad():
        found: torch.Tensor = model.outputs({"input_ids": IDS})
    return found


def test_named_heads_go_and_the_saved_model_is_the_ablated_one(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    options = ("--held-out", corpus, "--lines", "-o", out, "--json", "-")
    found = cli("prune", folder, "--heads", "0.1", "--heads", "1.3-5", *options).data
    assert found["cut"] == ["0.1", "1.3", "1.4", "1.5"]
    model = hw.load(folder)
    with hw.ablate(model, "0.1, 1.3-5"), torch.no_grad():
        wanted = model.outputs({"input_ids": IDS})
        loss = hw.loss(model, TEXTS * 3)
    torch.testing.assert_close(logits(out), wanted, rtol=1e-4, atol=1e-5)
    (file,) = found["files"]
    assert file["after"] == pytest.approx(loss.mean, rel=1e-4)
    assert file["before"] == pytest.approx(hw.loss(model, TEXTS * 3).mean, rel=1e-4)
    sizes = found["sizes"]
    assert sizes["query heads"] == {"before": 12, "after": 8}
    assert sizes["KV heads"] == {"before": 4, "after": 3}
    assert sizes["cache per token"] == {"before": 4 * 2 * 4 * 4, "after": 3 * 2 * 4 * 4}
    smaller = sum(p.numel() for p in hw.load(out).module.parameters())
    assert sizes["parameters"]["after"] == smaller < sizes["parameters"]["before"]


def test_what_is_shown_and_drawn(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "small", tmp_path / "cut.svg"
    options = ("--held-out", corpus, "--lines", "-o", out, "--svg", picture)
    answer = cli("prune", folder, "--heads", "0.1", *options)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("    0  o  x  o │ o  o  o") for line in lines)
    assert any(line.split()[:3] == ["query", "heads", "12"] for line in lines)
    assert f'hw.load("{out}")' in answer.err
    svg = picture.read_text(encoding="utf-8")
    assert "x cut (1)" in svg
    assert "o kept (11)" in svg
    again = cli("prune", out, "--heads", "1.*")
    assert again.code == 0, again.err
    assert "6 of 11 heads cut: 1.0-5" in " ".join(again.out.split())
    assert "    0  o     o │ o  o  o" in again.out
    assert "not saved; -o FOLDER saves the model" in again.err


MISTAKES = {
    "say which heads go": [],
    "say how much stays": ["--texts", "CORPUS"],
    "--keep is a share above 0 and up to 1, came 0": ["--texts", "CORPUS", "--keep", "0"],
    "--keep is a share above 0 and up to 1, came 1.5": ["--texts", "CORPUS", "--keep", "1.5"],
    "--heads names what goes": ["--heads", "0.1", "--keep", "0.5"],
    "0.9 is not there": ["--heads", "0.9"],
    "'a.b' is no head id": ["--heads", "a.b"],
    "--curve goes with --keep": ["--heads", "0.1", "--curve"],
    "'row' is not one of": ["--heads", "0.1", "--unit", "row"],
    "it is a file, and a folder is to be written": ["--heads", "0.1", "-o", "CORPUS"],
    "No such file": ["--heads", "0.1", "-o", "missing/small"],
    "missing.txt cannot be read": ["--heads", "0.1", "--held-out", "missing.txt"],
    "its name must end in .png": ["--heads", "0.1", "--png", "x.svg"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("prune", folder, *more)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]


def test_a_full_disk_leaves_the_old_model(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "small"
    assert cli("prune", folder, "--heads", "0.1", "-o", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    monkeypatch.setattr("headwise.cut.saving.forms.save_file", full, raising=False)
    monkeypatch.setattr("headwise.nn.writing.save_file", full, raising=False)
    answer = cli("prune", folder, "--heads", "1.1", "-o", out)
    assert answer.code == 1
    assert "No space left on device" in answer.err.strip().splitlines()[-1]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_heads_chosen_on_texts_beside_random_ones(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    svg = tmp_path / "curve.svg"
    options = ("--texts", corpus, "--lines", "--keep", "0.5", "--curve", "--draws", "2", "--refit")
    found = cli("prune", folder, *options, "--svg", svg, "--json", "-").data
    assert found["sizes"]["query heads"]["after"] == 6
    points = {(p["name"], round(12 * p["removed"])): p for p in found["curve"]}
    ways = {name for name, _ in points}
    assert ways == {"this cut", "one shot, smallest gate gradients", "random heads"}
    model = hw.load(folder)
    ranked = hw.importance(model, TEXTS * 3, "gate", quiet=True)["importance"].values.reshape(-1)
    weakest = [f"{i // 6}.{i % 6}" for i in ranked.argsort()[:6]]
    with hw.ablate(model, weakest):
        wanted = hw.loss(model, TEXTS * 3).mean
    shot = points["one shot, smallest gate gradients", 6]
    assert shot["loss"] == pytest.approx(wanted, rel=1e-4)
    drawn = points["random heads", 6]
    assert drawn["low"] < drawn["loss"] < drawn["high"]
    (file,) = found["files"]
    assert points["this cut", 6]["loss"] == pytest.approx(file["after"], rel=1e-4)
    text = svg.read_text(encoding="utf-8")
    for told in (*ways, "heads removed", "loss (nats per token)", "50 %"):
        assert told in text


def test_scores_of_a_file_choose_and_whole_groups_go(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    scores = tmp_path / "scores.nc"
    assert cli("rank", corpus, "--lines", "-m", folder, "-o", scores).code == 0
    options = ("--scores", scores, "--keep", "0.75", "--unit", "group", "--json", "-")
    found = cli("prune", folder, *options).data
    assert len(found["cut"]) == 3
    layer, first = found["cut"][0].split(".")
    assert found["cut"] == [f"{layer}.{int(first) + i}" for i in range(3)]
    assert int(first) in (0, 3)
    assert found["sizes"]["cache per token"] == {"before": 128, "after": 96}


def test_an_interrupt_keeps_the_whole_steps(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.cli.progress import StepProgress

    out, at = tmp_path / "small", StepProgress.at

    def interrupted(self: StepProgress, done: int, what: str) -> None:
        at(self, done, what)
        if done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(StepProgress, "at", interrupted)
    options = ("--texts", corpus, "--lines", "--keep", "0.5", "--steps", "3", "-o", out)
    answer = cli("prune", folder, *options)
    assert answer.code == 130
    assert "interrupted after step 1 of 3; that is what was cut" in answer.err
    assert 6 < len(heads_left(out)) < 12


def test_the_json_holds_all_that_the_cut_went_by(cli: Cli, folder: Path, corpus: Path) -> None:
    def settings(*options: str | Path) -> dict[str, object]:
        found: dict[str, object] = cli("prune", folder, *options, "--json", "-").data["settings"]
        return found

    ranked = settings(
        "--texts", corpus, "--lines", "--keep", "0.5", "--unit", "group", "--seed", "3"
    )
    wanted = {"texts": [str(corpus)], "keep": 0.5, "unit": "group", "budget": "heads", "seed": 3}
    wanted |= {"method": "joint", "steps": 1, "fold": "mean", "refit": False, "heads": None}
    assert ranked.items() >= wanted.items()
    assert ranked["reading"] == {"lines": True}
    named = settings("--heads", "0.1")
    wanted = {"heads": ["0.1"], "texts": [], "fold": "zero", "keep": None, "budget": None}
    assert named.items() >= {**wanted, "method": None, "steps": None}.items()


def test_a_share_that_whole_units_cannot_meet_is_told(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    scores = tmp_path / "scores.nc"
    assert cli("rank", corpus, "--lines", "-m", folder, "-o", scores).code == 0

    def told(*options: str) -> str:
        answer = cli("prune", folder, "--scores", scores, *options)
        assert answer.code == 0, answer.err
        return " ".join(answer.out.split())

    far = told("--keep", "0.8", "--unit", "layer")
    assert "at most 80% of the heads were to stay, and 50% do: layers go whole" in far
    assert "one fewer would leave 100%" in far
    cache = told("--keep", "0.6", "--unit", "group", "--budget", "cache")
    assert "at most 60% of the cache were to stay, and 50% do" in cache
    assert "one fewer would leave 75%" in cache
    assert "were to stay" not in told("--keep", "0.5", "--unit", "layer")
    assert "a pass takes" not in far


@pytest.mark.parametrize("asked", ["0.9", "0.6", "0.3"])
def test_the_time_that_was_measured_is_told(
    cli: Cli, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    from headwise.cut.pruning.clocking import Clock

    monkeypatch.setattr(Clock, "beside", lambda self, other: (0.02, 0.012))
    monkeypatch.setattr(Clock, "ratio", lambda self, heads: 1 - len(heads) / 13)
    options = ("--texts", corpus, "--lines", "--keep", asked, "--budget", "time")
    answer = cli("prune", folder, *options)
    shown = " ".join(answer.out.split())
    assert "time of a pass 20.00 ms 12.00 ms 60.0%" in shown
    assert "a pass takes 0.60 x the time that it took" in shown
    assert ("0.60 x was asked for" in shown) is False
    assert (f"{asked}0 x was asked for" in shown) is (asked != "0.6")
    sizes = cli("prune", folder, *options, "--json", "-").data["sizes"]
    assert sizes["time of a pass"] == {"before": 0.02, "after": 0.012}


@pytest.mark.parametrize(("heads", "of"), [("0.*", "some of its layers"), ("*", "its layers")])
def test_layers_without_heads_are_said_to_be_some_or_all(
    cli: Cli, folder: Path, tmp_path: Path, heads: str, of: str
) -> None:
    answer = cli("prune", folder, "--heads", heads, "-o", tmp_path / "small")
    assert answer.code == 0, answer.err
    assert f", as {of} have no heads" in " ".join(answer.err.split())


def heads_left(folder: Path) -> list[str]:
    from headwise.cut.census import census

    return [str(id) for id in census(hw.load(folder)).heads]


@pytest.mark.models
def test_a_real_model_is_cut_saved_and_read(cli: Cli, tmp_path: Path) -> None:
    out, text = tmp_path / "small", tmp_path / "text.txt"
    text.write_text("The animal didn't cross the street because it was too tired.")
    options = ("--held-out", text, "-o", out, "--json", "-")
    found = cli("prune", "smollm2", "--heads", "20.0-2", "--heads", "25.4", *options).data
    assert found["sizes"]["query heads"] == {"before": 270, "after": 266}
    assert found["sizes"]["KV heads"] == {"before": 90, "after": 89}
    after = hw.loss(hw.load(out), text.read_text()).mean
    assert found["files"][0]["after"] == pytest.approx(after, rel=1e-4)
