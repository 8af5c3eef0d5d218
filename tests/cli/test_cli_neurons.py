"""headwise neurons and look --ffn: what a person sees, and each mistake in one line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from cli_help import Cli
from rich.cells import cell_len

import headwise as hw

TEXT = "It is a cat at it. 它到期了 🙂."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "lines.txt"
    lines = [f"{TEXT} And {i} more{'! ' * (i % 4)}at it." for i in range(30)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [40, 80, 132])
def test_contexts_fit_the_width_and_mark_the_token(
    cli: Cli, folder: Path, corpus: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    answer = cli("neurons", corpus, "--lines", "--model", folder, "--neuron", "1.3", "--top", "5")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert all(cell_len(line) <= width for line in lines)
    shown = [line for line in lines if "[" in line]
    found = hw.neurons(hw.load(folder), corpus.read_text("utf-8").splitlines(), top=5)
    contexts = [*found.contexts("1.3"), *found.contexts("1.3", "negative")]
    assert len(shown) == len(contexts) == 10
    for line, context in zip(shown, contexts, strict=True):
        assert f"[{context.token.label}]" in line
        assert float(line.split()[0]) == pytest.approx(context.activation, abs=0.06)


def test_the_most_telling_are_chosen_and_written(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "n.json"
    answer = cli(
        "neurons", corpus, "--lines", "-m", folder, "--layer", "1", "--count", "3", "-o", out
    )
    assert answer.code == 0
    held = json.loads(out.read_text(encoding="utf-8"))
    ids = [neuron["id"] for neuron in held["neurons"]]
    assert len(ids) == 3
    assert held["about"]["layers"] == ["0", "1"]
    assert all(id.startswith("1.") and f"\n{id}  " in answer.out for id in ids)
    whole = tmp_path / "n.nc"
    assert cli("neurons", corpus, "--lines", "-m", folder, "--count", "0", "-o", whole).code == 0
    assert hw.load_neurons(whole).size(hw.HeadId("", 1, 0).layer_id) == 32


MISTAKES = {
    "there is no neuron 1.32: layer 1 has the neurons 1.0 to 1.31": ["--neuron", "1.32"],
    "there is no neuron 2.0": ["--neuron", "2.0"],
    "there is no layer 7 of neurons": ["--layer", "7"],
    "'1' is not a neuron's id": ["--neuron", "1"],
    "'x' is no layer id; write it as 12 or decoder.12": ["--layer", "x"],
    "leave one out": ["--layer", "1", "--neuron", "1.3"],
    "must end in one of .nc, .json": ["-o", "n.csv"],
    "writes no other; leave --target out": ["--target", "CORPUS"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("neurons", corpus, "--lines", "-m", folder, *more)
    assert answer.code in (1, 2)
    assert says in answer.err.strip().splitlines()[-1]
    assert "fires" not in answer.out


def test_an_empty_file_and_a_model_without_networks(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    answer = cli("neurons", empty, "-m", folder)
    assert (answer.code, answer.err) == (1, f"headwise: no text in {empty}\n")
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=300, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, num_local_experts=2,
    )  # fmt: skip
    MixtralForCausalLM(config).save_pretrained(tmp_path / "experts")
    (tmp_path / "experts" / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    for command in (["neurons", corpus], ["look", "it is", "--ffn"]):
        answer = cli(*command, "-m", tmp_path / "experts")
        assert answer.code == 1
        last = answer.err.strip().splitlines()[-1]
        assert "no neurons that can be looked at: mixtures of experts (MixtralExperts)" in last


def test_a_line_that_cannot_be_read_keeps_what_was_before(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.see.texts.packing._WINDOW", 4)
    path, out = tmp_path / "x.jsonl", tmp_path / "n.nc"
    lines = [json.dumps({"text": f"it is {i} at it"}) for i in range(10)]
    path.write_text("\n".join([*lines, "{"]) + "\n")
    answer = cli("neurons", path, "-m", folder, "-o", out)
    assert answer.code == 1
    last = answer.err.strip().splitlines()[-1]
    assert "line 11 cannot be read as JSON" in last
    assert f"8 texts before it are shown; wrote {out}" in last
    assert hw.load_neurons(out).table.attrs["texts"] == 8


def test_ctrl_c_keeps_what_was_read(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.see.neurons.gathering import NeuronGatherer

    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 300)
    add, out = NeuronGatherer.add, tmp_path / "n.nc"

    def interrupted(self: NeuronGatherer, batch: object) -> None:
        add(self, batch)
        if self.texts < 10:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(NeuronGatherer, "add", interrupted)
    answer = cli("neurons", corpus, "--lines", "-m", folder, "-o", out, "--count", "1")
    assert answer.code == 130
    read = hw.load_neurons(out).table.attrs["texts"]
    assert 0 < read < 30
    assert f"interrupted after {read} texts; wrote {out}" in answer.err


def test_look_shows_what_fires_at_each_token(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--ffn", "-m", folder, "--top", "2")
    assert answer.code == 0
    assert all(cell_len(line) <= 80 for line in answer.out.splitlines())
    found = hw.fires(hw.load(folder), TEXT)
    table = answer.out.partition("token  ")[2].splitlines()[1:]
    assert len(table) == 2 * len(found.tokens)
    for i, token in enumerate(found.tokens):
        assert table[2 * i].startswith(token.label)
        for fire, line in zip(found.at(i, top=2), table[2 * i : 2 * i + 2], strict=True):
            assert str(fire.neuron) in line.split()
            assert f"{fire.share:.2f}" in line.split()


@pytest.mark.parametrize("width", [28, 40])
def test_a_narrow_table_keeps_what_orders_it(
    cli: Cli, folder: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    answer = cli("look", TEXT, "--ffn", "-m", folder, "--top", "1")
    table = answer.out[answer.out.index("\ntoken ") + 1 :].splitlines()
    assert all(cell_len(line) <= width for line in table)
    assert "share" in table[0]
    assert ("fires" in table[0]) is (width == 40)
    found = hw.fires(hw.load(folder), TEXT)
    for i, line in enumerate(table[1:]):
        (fire,) = found.at(i, top=1)
        assert f"{fire.share:.2f}" in line.split()
        assert str(fire.neuron) in line.split()


def test_one_text_is_said_as_one(cli: Cli, folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "one.txt"
    text.write_text("it is a cat", encoding="utf-8")
    answer = cli("neurons", text, "-m", folder, "--top", "1", "--neuron", "1.3")
    assert "\n1 text, " in answer.out
    text.write_text("i", encoding="utf-8")
    answer = cli("neurons", text, "-m", folder, "--top", "1", "--neuron", "1.3", "--everywhere")
    assert "\n1 text, 1 token; counted: all tokens" in answer.out
    answer = cli("neurons", text, "-m", folder)
    assert "everywhere=True, --everywhere" in answer.err


def test_look_shows_a_word_in_a_layer_and_as_json(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--ffn", "-m", folder, "--word", "cat", "--layer", "1")
    rows = answer.out.partition("token  ")[2].splitlines()[1:]
    assert rows
    assert all(" 1." in row and " 0." not in row.partition(" 1.")[0] for row in rows)
    data = cli("look", TEXT, "--ffn", "-m", folder, "--word", "cat", "--json", "-").data
    assert "".join(token["text"] for token in data["tokens"]).strip() == "cat"
    assert len(data["tokens"][0]["neurons"]) == 3
    assert len(data["tokens"][0]["neurons"][0]["raises"]) == 5


@pytest.mark.parametrize(
    "option", [["--head", "1.3"], ["--words"], ["--norms"], ["--png", "x.png"]]
)
def test_what_is_of_heads_does_not_go_with_neurons(cli: Cli, option: list[str]) -> None:
    answer = cli("look", TEXT, "--ffn", *option)
    assert answer.code == 2
    assert f"{option[0]} is of heads, and --ffn shows neurons" in answer.err


def test_look_says_where_a_layer_or_word_is_missing(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--ffn", "-m", folder, "--layer", "5")
    assert answer.err.startswith("headwise: there is no layer 5 of neurons")
    answer = cli("look", TEXT, "--ffn", "-m", folder, "--word", "dog")
    assert answer.err.startswith("headwise: 'dog' is not in the text")


def test_a_long_text_shows_its_beginning_and_says_so(cli: Cli, folder: Path) -> None:
    answer = cli("look", "it is " * 200, "--ffn", "-m", folder, "--top", "1")
    assert answer.code == 0
    assert "(64 of " in answer.out
    assert len(answer.out.splitlines()) < 80
