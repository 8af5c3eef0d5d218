"""headwise regroup: a smaller cache, the loss before and after, and a folder that gives the same model again."""

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


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def test_the_cache_halves_and_the_losses_are_those_of_the_saved_model(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "shared"
    options = ("--kv-heads", "1", "--how", "first", "--held-out", corpus, "--lines", "-o", out)
    found = cli("regroup", folder, *options, "--json", "-").data
    sizes = found["sizes"]
    assert sizes["KV heads"] == {"before": 4, "after": 2}
    assert sizes["query heads"]["after"] == 12
    assert sizes["cache per token"]["after"] * 2 == sizes["cache per token"]["before"]
    (file,) = found["files"]
    assert file["before"] == pytest.approx(hw.loss(hw.load(folder), TEXTS).mean, rel=1e-5)
    assert file["after"] == pytest.approx(hw.loss(hw.load(out), TEXTS).mean, rel=1e-5)
    assert file["after"] != pytest.approx(file["before"], abs=1e-4)
    assert found["how"] == "first"


def test_heads_that_are_the_same_lose_nothing(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    same = tmp_path / "same"
    same.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (same / name).write_bytes((folder / name).read_bytes())
    weights = load_file(folder / "model.safetensors")
    for name, x in weights.items():
        if "k_proj" in name or "v_proj" in name:
            weights[name] = torch.cat([x[:4], x[:4]])
    save_file(weights, same / "model.safetensors", metadata={"format": "pt"})
    for how in ("mean", "aligned"):
        options = ("--kv-heads", "1", "--how", how, "--texts", corpus, "--lines", "--json", "-")
        (file,) = cli("regroup", same, *options).data["files"]
        assert file["change"] == pytest.approx(0, abs=1e-4)


def test_what_is_shown(cli: Cli, folder: Path, corpus: Path) -> None:
    answer = cli("regroup", folder, "--kv-heads", "1", "--texts", corpus, "--lines")
    assert answer.code == 0, answer.err
    shown = " ".join(answer.out.split())
    assert "KV heads pooled, aligned, to 1 a layer; measured on the texts it was pooled by" in shown
    assert "KV heads 4 2 50.0%" in shown
    assert "cache per token 128 B 64 B 50.0%" in shown
    assert "not saved; -o FOLDER saves the model" in answer.err


MISTAKES = {
    "Missing option '--kv-heads'": [],
    "does not divide the 2 KV heads": ["--kv-heads", "3"],
    "0 is not in the range": ["--kv-heads", "0"],
    "'best' is not one of": ["--kv-heads", "1", "--how", "best"],
    "missing.txt cannot be read": ["--kv-heads", "1", "--texts", "missing.txt"],
    "a folder is to be written": ["--kv-heads", "1", "-o", "CORPUS"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("regroup", folder, *more)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]
