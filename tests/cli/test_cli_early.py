"""Mistakes that are known before the model runs, and most before it is loaded, are said at once."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from cli_help import Cli
from torch import nn

import headwise as hw
from headwise.names import ModelError


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        pytest.fail("a model was loaded")

    monkeypatch.setattr("headwise.cli.look.running.load", never)


@pytest.fixture
def not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        pytest.fail("the model ran")

    monkeypatch.setattr("headwise.hub.load.Model.run", never)


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--png", "x.jpg", "--png cannot write 'x.jpg': its name must end in .png"),
        ("--png", "x", "--png cannot write 'x': its name must end in .png"),
        ("--png", "x.svg", "its name must end in .png"),
        ("--svg", "x.png", "--svg cannot write 'x.png': its name must end in .svg"),
        ("--png", "missing/x.png", "the picture cannot be written to .*No such file"),
        ("--svg", "missing/x.svg", "the picture cannot be written to .*No such file"),
        ("--json", "missing/x", "the JSON cannot be written to .*No such file"),
        ("--json", "folder.png", "the JSON cannot be written to .*it is a folder"),
        ("--png", "folder.png", "the picture cannot be written to .*it is a folder"),
        ("--json", "file/x", "the JSON cannot be written to .*Not a directory"),
    ],
)
def test_before_a_model_is_loaded(
    cli: Cli, tmp_path: Path, option: str, name: str, message: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    answer = cli("look", "a cat", option, tmp_path / name)
    assert (answer.code, answer.out) == (1, "")
    assert re.fullmatch(f"headwise: .*{message}.*\n", answer.err)


@pytest.mark.usefixtures("not_run")
@pytest.mark.parametrize("word", ["dog", "狗", "cats", " dog "])
def test_a_word_that_is_nowhere(cli: Cli, folder: Path, word: str) -> None:
    answer = cli("look", "a cat", "--model", folder, "--word", word)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"headwise: {word.strip()!r} is not in the text; its words are: a, cat\n"


@pytest.mark.parametrize("word", ["CAT", "Cat", " cat"])
def test_a_word_in_other_letters_is_somewhere(cli: Cli, folder: Path, word: str) -> None:
    answer = cli("look", "a cat", "--model", folder, "--word", word)
    assert answer.code == 0, answer.err
    assert "cat looks at" in answer.out


@pytest.mark.usefixtures("not_run")
def test_a_folder_without_a_tokenizer(cli: Cli, folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder / name, tmp_path)
    answer = cli("look", "a cat", "--model", tmp_path)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.strip() == (
        f"headwise: {tmp_path} has no tokenizer, so it reads no text; "
        "put the tokenizer.json it was trained with beside its config.json"
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "ours"),
    [
        ({"num_attention_heads": 5}, "num_heads=5 is not a multiple of num_kv_heads=2"),
        ({"num_attention_heads": "six"}, ""),
        ({"hidden_size": None}, ""),
    ],
)
def test_a_config_that_does_not_fit_the_weights(
    cli: Cli, folder: Path, tmp_path: Path, wrong: dict[str, object], ours: str
) -> None:
    for name in ("tokenizer.json", "model.safetensors"):
        shutil.copy(folder / name, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | wrong))
    answer = cli("look", "a cat", "--model", tmp_path)
    assert (answer.code, answer.out) == (1, "")
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith(f"headwise: transformers cannot load {tmp_path}: ")
    assert ours in lines[0]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [3, None, nn.Linear, ["smollm2"]])
def test_what_is_no_model(name: object) -> None:
    with pytest.raises(ModelError, match="load takes a name, a path or a module, came "):
        hw.load(name)  # type: ignore[arg-type]
