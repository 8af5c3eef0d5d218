"""headwise circuits, headwise clusters and look --norms: what they show and write, on a small model of our own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_help import Cli

import headwise as hw
from headwise.cli.circuits.running import _spans

TEXT = "a cat at it"


def test_circuits_show_and_write_every_head(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    answer = cli("circuits", "--model", folder, "-o", out)
    assert answer.code == 0
    for said in ("copying", "k_composition", "positions:", "norms:"):
        assert said in answer.out
    found = json.loads(out.read_text(encoding="utf-8"))
    assert [head["id"] for head in found["heads"]] == [
        f"{i}.{h}" for i in range(2) for h in range(6)
    ]
    table = hw.circuits(hw.load(folder, quiet=True))
    for head in found["heads"]:
        wanted = float(table.copying.sel(layer=head["layer"], head=head["head"]))
        assert head["copying"] == pytest.approx(wanted, abs=1e-4)
    assert found["others"]["k_composition"]["dims"] == ["head_from", "head_to"]


def test_circuits_of_a_head(cli: Cli, folder: Path) -> None:
    answer = cli("circuits", "--model", folder, "--head", "1.2")
    assert "1.2  copying" in answer.out
    assert "its keys    read  0." in answer.out
    wrong = cli("circuits", "--model", folder, "--head", "7.0")
    assert wrong.code == 1
    assert "there is no head 7.0: the heads are 0.0 to 1.5" in wrong.err
    assert _spans(["encoder.0.0", "encoder.1.3", "cross.0.0", "cross.0.3"]) == (
        "encoder.0.0 to encoder.1.3, cross.0.0 to cross.0.3"
    )


def test_a_table_of_no_kind_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    for command in (["circuits"], ["clusters", __file__]):
        answer = cli(*command, "-o", tmp_path / "c.txt")
        assert answer.code == 1
        assert "says no kind of table" in answer.err


def test_clusters_are_told_drawn_and_written(cli: Cli, folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a cat at it\nit sat at a cat\n", encoding="utf-8")
    png, svg, out = tmp_path / "h.png", tmp_path / "h.svg", tmp_path / "h.csv"
    more = ["--lines", "--count", "3", "--png", png, "-o", out]
    answer = cli("clusters", text, "--model", folder, *more)
    assert answer.code == 0, answer.err
    assert "12 heads, from 17 tokens, drawn from 2 texts, 17 tokens" in " ".join(answer.out.split())
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "stream,layer,head,cluster"
    assert len(lines) == 13
    assert "divergence" in answer.err
    assert png.read_bytes().startswith(b"\x89PNG")
    assert cli("clusters", text, "--model", folder, "--lines", "--tree", "--svg", svg).code == 0
    drawn = svg.read_text(encoding="utf-8")
    assert all(f">{i}.{h}<" in drawn for i in range(2) for h in range(6))


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_the_width(
    cli: Cli, folder: Path, tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a cat at it\nit sat at a cat\n", encoding="utf-8")
    clusters = ["clusters", text, "--lines", "--model", folder, "--count", "2"]
    circuits = ["circuits", "--model", folder]
    for command in (clusters, circuits, [*circuits, "--head", "1.2"]):
        monkeypatch.setenv("COLUMNS", str(width))
        answer = cli(*command)
        assert answer.code == 0, answer.err
        assert max(map(len, answer.out.splitlines())) <= width
        monkeypatch.setenv("COLUMNS", "400")
        assert answer.out.split()[-30:] == cli(*command).out.split()[-30:]
        assert [x for x in answer.out.split() if x[:1] in "+-"] == [
            x for x in cli(*command).out.split() if x[:1] in "+-"
        ]


def test_more_clusters_than_heads_are_said_to_be_one_each(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "h.csv"
    text.write_text("a cat at it", encoding="utf-8")
    answer = cli("clusters", text, "--model", folder, "--count", "100", "-o", out)
    assert answer.code == 0
    assert "--count 100: there are 12 heads, each a cluster of its own" in answer.err
    assert "12 1 head: " in answer.out
    assert "1 heads" not in answer.out
    rows = out.read_text(encoding="utf-8").splitlines()[1:]
    assert sorted(int(row.split(",")[-1]) for row in rows) == list(range(1, 13))


def test_clusters_in_netcdf_are_read_back(cli: Cli, folder: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "h.nc"
    text.write_text("a cat at it", encoding="utf-8")
    assert cli("clusters", text, "--model", folder, "--count", "3", "-o", out).code == 0
    held = hw.load_profile(out)
    assert int(held["cluster"].max()) == 3
    assert held["divergence"].attrs["rows"] == held.attrs["tokens"]


@pytest.fixture(scope="module")
def shared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ALBERT in a folder: one layer that runs three times, an embedding of another width."""
    import torch
    from transformers import AlbertConfig, AlbertForMaskedLM

    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("shared")
    config = AlbertConfig(
        vocab_size=260, embedding_size=12, hidden_size=24, num_hidden_layers=3,
        num_attention_heads=3, intermediate_size=32, initializer_range=0.3,
    )  # fmt: skip
    AlbertForMaskedLM(config).save_pretrained(made)
    (made / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    return made


def test_why_there_is_no_copying_is_told(cli: Cli, shared: Path) -> None:
    answer = cli("circuits", "--model", shared)
    assert "most   none: not_available, below, says why" in answer.out
    assert "not_available: all layers: no copying" in answer.out


def test_pairs_of_a_layer_that_runs_several_times_are_told_once(cli: Cli, shared: Path) -> None:
    answer = cli("circuits", "--model", shared)
    found = answer.out[answer.out.index("q_composition") :].split("\n\n")[0]
    pairs = re.findall(r"(\d)\.(\d) > (\d)\.(\d) (\S+)(?: \(and (\d+) more)?", found)
    assert len(pairs) == 8
    assert len({(a, one, other) for a, one, _, other, _, _ in pairs}) == 8
    assert {(a, b, more) for a, _, b, _, _, more in pairs} == {("0", "1", "1"), ("1", "2", "")}


def test_a_model_that_reads_no_text_says_how_it_is_given(cli: Cli) -> None:
    answer = cli("circuits", "--model", "whisper-tiny-en")
    assert answer.code == 1
    assert "pass them from Python: hw.circuits(model, {'input_features': ...})" in answer.err


def test_norms_beside_the_patterns(cli: Cli, folder: Path) -> None:
    chosen = ["--head", "1.3", "--norms"]
    found = cli("look", TEXT, "--model", folder, *chosen, "--json", "-").data
    record = hw.look(hw.load(folder, quiet=True), TEXT)
    for row, wanted in zip(found["norms"]["1.3"], record.norm_weights("1.3"), strict=True):
        assert row == pytest.approx(wanted.tolist(), abs=1e-5)
    answer = cli("look", TEXT, "--model", folder, *chosen)
    assert "norm-based" in answer.out
    assert "Kobayashi" in answer.out
    assert "\n1.3  (KV group 1)  norm-based\n" in answer.out
    plain = cli("look", TEXT, "--model", folder, "--head", "1.3").out
    assert re.search(r"\n1\.3  [a-z ]+ 0\.\d\d  \(KV group 1\)\n", plain)
    assert "norm-based" not in cli("look", TEXT, "--model", folder, "--head", "1.3").out
