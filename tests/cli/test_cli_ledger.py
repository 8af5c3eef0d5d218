"""headwise ledger: totals, rows and shapes of a model or a config.json alone, and every mistake in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from cli_help import Cli

CONFIG = {
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "小.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return path


def written(folder: Path, **fields: object) -> Path:
    path = folder / "other.json"
    path.write_text(json.dumps({**CONFIG, **fields}), encoding="utf-8")
    return path


def test_a_config_without_weights(cli: Cli, config: Path) -> None:
    found = cli("ledger", config, "--length", "16", "--shapes", "--formulas")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0] == "小 (Decoder), float32: 1 row of 16 positions"
    assert lines[1].startswith("13,608 parameters")
    assert "layers 0 to 2, each" in lines
    assert "  Q             6 times 16 x 4" in found.out
    assert "  after W_O     16 x 24" in found.out
    assert "gives" not in found.out  # each count equals its form
    assert max(map(len, lines)) <= 80


def test_the_tables_that_are_written_add_up(cli: Cli, folder: Path, tmp_path: Path) -> None:
    csv, whole = tmp_path / "counts.csv", tmp_path / "counts.json"
    found = cli("ledger", folder, "--length", "12", "--batch", "2", "-o", csv, "--json", whole)
    assert found.code == 0, found.err
    said = json.loads(whole.read_text(encoding="utf-8"))
    table = pd.read_csv(csv)
    names = ("parameters", "flops_forward", "flops_backward", "activation_bytes", "cache_bytes")
    for name in names:
        assert table[name].sum() == said[name], name
    assert said["flops_forward_per_sequence"] * 2 == said["flops_forward"]
    assert said["flops_forward_per_token"] * 24 == said["flops_forward"]
    assert {"0", "1", "outside"} == set(table["place"].astype(str))
    data = cli("ledger", folder, "--length", "12", "--batch", "2", "--json", "-").data
    assert data == said


def test_heads_beside_each_other(cli: Cli, config: Path) -> None:
    found = cli("ledger", config, "--length", "8", "--heads", "3,6,12", "--kv-heads", "3")
    assert found.code == 0, found.err
    rows = [line.split() for line in found.out.splitlines() if line.strip()[:1].isdigit()]
    rows = [row for row in rows if row[1:2] == ["3"]]
    assert [row[:3] for row in rows] == [["3", "3", "8"], ["6", "3", "4"], ["12", "3", "2"]]
    assert "the same for all: none" not in found.out
    plain = cli("ledger", config, "--length", "8", "--heads", "3,6,12", "--json", "-").data
    told = [(one["num_heads"], one["num_kv_heads"], one["parameters"]) for one in plain["variants"]]
    assert told == [(3, 1, 13608), (6, 2, 13608), (12, 4, 13608)]
    mixed = cli("ledger", config, "--length", "8", "--heads", "6,5", "--kv-heads", "2")
    assert mixed.code == 0
    assert "h = 5, h_kv = 2 cannot be: d_model=24 is not a multiple of num_heads=5" in mixed.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--length", "0"], "length must be a whole number of 1 or more, came 0"),
        (["--length", "-3"], "length must be a whole number of 1 or more, came -3"),
        (["--batch", "0"], "batch must be a whole number of 1 or more, came 0"),
        (["--length", "65"], "length=65, and 小 reads 64 positions at most"),
        (["--target-length", "4"], "target_length=4 came for 小, which has no decoder beside"),
        (["--heads", "5"], "d_model=24 is not a multiple of num_heads=5; give head_dim"),
        (["--kv-heads", "4"], "num_heads=6 is not a multiple of num_kv_heads=4"),
        (["--heads", "2,x"], "'x' is no number of heads; write them as 1,2,4"),
        (["--heads", "0"], "'0' is no number of heads"),
        (["--heads", "2", "--shapes"], "leave --shapes, --formulas, --layers and -o out"),
        (["--dtype", "int8"], "'int8' is no dtype for weights"),
        (["-o", "counts.txt"], "says no kind of table"),
    ],
)
def test_what_cannot_be_is_one_line(cli: Cli, config: Path, options: list[str], says: str) -> None:
    found = cli("ledger", config, *options)
    assert found.code in (1, 2)
    assert found.out == ""
    assert says in " ".join(found.err.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; it should hold the fields of a config.json"),
        ("{", "is not JSON"),
        ("[1]", "is no model configuration"),
        ('{"a": 1}', "is no model configuration"),
        ('{"model_type": "lama"}', "did you mean"),
    ],
)
def test_a_file_that_is_no_configuration(cli: Cli, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    found = cli("ledger", path)
    assert found.code == 1
    assert says in found.err
    assert len(found.err.strip().splitlines()) == 1


def test_a_slip_in_a_field_is_named(cli: Cli, tmp_path: Path) -> None:
    found = cli("ledger", written(tmp_path, num_atention_heads=4))
    assert found.code == 1
    assert "num_atention_heads" in found.err
    assert "did you mean num_attention_heads?" in found.err
    theirs = {"model_type": "olmo", "num_hiden_layers": 2, "vocab_size": 40}
    path = tmp_path / "olmo.json"
    path.write_text(json.dumps(theirs), encoding="utf-8")
    found = cli("ledger", path)
    assert found.code == 1
    assert "num_hiden_layers is not known; did you mean num_hidden_layers?" in found.err


def test_a_name_that_is_nowhere(cli: Cli, tmp_path: Path) -> None:
    found = cli("ledger", tmp_path / "none.json")
    assert found.code == 1
    assert "there is no file" in found.err
