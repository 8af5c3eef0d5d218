"""What headwise audit is pointed at: models by name, modules of one's own, each mistake in one line with code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cli_help import Cli

import headwise as hw

MODULE = '''"""A module with mistakes."""
from torch import nn, tanh
import torch

number = 3

class Embed(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.table = nn.Embedding(32, d)

    def forward(self, ids):
        return self.table(ids)

module = Embed()

def make():
    return Embed()

def nothing():
    return None

def text():
    return "smollm2"

def raising():
    raise ValueError("no such layer\\nand more")

def leaving():
    raise SystemExit(3)

def needing(d, layers, more=1):
    return Embed(d)

def wrong():
    return Embed(), {"lenght": 7}

def failing():
    def run(ids):
        raise RuntimeError("boom")
    return run, {"inputs": torch.arange(9)[None]}
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of one's own, of a name that no other test imports."""
    monkeypatch.chdir(tmp_path)
    name = f"own_{abs(hash(request.node.nodeid))}"
    Path(f"{name}.py").write_text(MODULE, encoding="utf-8")
    return name


MISTAKES = {
    "nothing": "OWN:nothing() gave NoneType None; it must return a module or a function",
    "text": "OWN:text() gave str 'smollm2'; it must return",
    "raising": "OWN:raising() raised ValueError: no such layer (OWN.py, line 27)",
    "leaving": "OWN:leaving() raised SystemExit: 3 (OWN.py, line 30)",
    "needing": "OWN:needing needs d, layers; name a function that takes no argument",
    "wrong": "OWN:wrong() returned the argument 'lenght', which audit does not take; it takes mask, ",
    "number": "OWN:number is int, not a function to call; write module:factory",
    "mak": "OWN has no 'mak'; did you mean make?",
    "Embed.nope": "OWN has no 'Embed.nope'",
    "zzz": "OWN has no 'zzz'; it has make, nothing, text, raising, leaving, needing, wrong, "
    "failing, ...",
    "": "'OWN:' names no factory; write module:factory",
    "make()": "'OWN:make()' names no factory",
}


@pytest.mark.parametrize("factory", MISTAKES)
def test_a_wrong_factory_is_one_line(cli: Cli, own: str, factory: str) -> None:
    answer = cli("audit", f"{own}:{factory}")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.strip().splitlines()
    assert line.startswith(f"headwise: {MISTAKES[factory].replace('OWN', own)}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_thing_here\n", "cannot be imported: ModuleNotFoundError: No module named"),
        (
            "x = 1\n1 / 0\n",
            "cannot be imported: ZeroDivisionError: division by zero (NAME.py, line 2)",
        ),
        ("def make(:\n", "cannot be imported: SyntaxError: invalid syntax (NAME.py, line 1)"),
        ("raise SystemExit\n", "cannot be imported: SystemExit (NAME.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"broken_{abs(hash(text))}"
    Path(f"{name}.py").write_text(text)
    answer = cli("audit", f"{name}:make")
    assert answer.code == 2
    (line,) = answer.err.strip().splitlines()
    assert said.replace("NAME", name) in line


def test_no_such_module(cli: Cli, own: str) -> None:
    answer = cli("audit", f"{own}s:make")
    assert answer.code == 2
    assert f"there is no module '{own}s' in " in answer.err
    answer = cli("audit", f"{own}.inside:make")
    assert answer.code == 2
    assert f"there is no module '{own}.inside'" in answer.err


def test_what_the_model_raises_is_2(cli: Cli, own: str) -> None:
    answer = cli("audit", f"{own}:failing")
    assert answer.code == 2
    assert "RuntimeError: boom" in answer.out + answer.err
    assert len(answer.err.strip().splitlines()) <= 1


@pytest.mark.parametrize("factory", ["make", "module", "Embed"])
def test_a_function_a_class_or_a_module_itself(cli: Cli, own: str, factory: str) -> None:
    assert cli("audit", f"{own}:{factory}", "--dimension", "future").code == 0
    assert cli("audit", f"{own}.py:{factory}", "--dimension", "future").code == 0


def test_the_path_is_as_before(cli: Cli, own: str) -> None:
    import sys

    before = list(sys.path)
    cli("audit", f"{own}:make", "--dimension", "future")
    cli("audit", f"{own}:raising")
    assert sys.path == before


LEAVING = """
import sys, torch

print("imported")

def run(ids):
    print("runs")
    sys.exit(CODE)

def make():
    print("made")
    return run, {"inputs": torch.arange(9)[None]}

def sound():
    print("made")
    return lambda ids: (print("runs"), ids[..., None].double().cumsum(1))[1], {"inputs": torch.arange(9)[None]}

def empty():
    return torch.nn.LSTM

def nothing(unknown):
    return unknown

def unreadable():
    return lambda x: x
"""


def written(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    name = f"leaving_{abs(hash((str(folder), code)))}"
    Path(f"{name}.py").write_text(LEAVING.replace("CODE", code), encoding="utf-8")
    return name


@pytest.mark.parametrize("code", ["", "0", "1", "3", "'no GPU'"])
def test_a_model_that_leaves_is_2(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    name = written(code, tmp_path, monkeypatch)
    answer = cli("audit", f"{name}:make")
    assert (answer.code, answer.out) == (2, "")
    *_, line = answer.err.strip().splitlines()
    assert line.startswith("headwise: it could not be audited: SystemExit")
    assert "line 8)" in line


def test_what_a_model_prints_is_not_in_the_json(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = written("", tmp_path, monkeypatch)
    answer = cli("audit", f"{name}:sound", "--dimension", "future", "--json", "-")
    assert [o["dimension"] for o in answer.data["outcomes"]][:1] == ["future"]
    assert answer.err.splitlines()[:3] == ["imported", "made", "runs"]


def test_messages_speak_of_options(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = written("", tmp_path, monkeypatch)
    answer = cli("audit", f"{name}:sound", "--mask", "causal & window(3)")
    assert answer.code == 2
    assert "pass --layers" in answer.err
    answer = cli("audit", f"{name}:sound", "--length", "5")
    assert "--length must be a whole number of at least 6, came 5" in answer.err
    answer = cli("audit", f"{name}:unreadable")
    assert '(model, {"inputs": ...})' in answer.err
    assert "inputs=" not in answer.err


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            'it ran in float32; dtype="float64" sees finer',
            "it ran in float32; --dtype float64 sees finer",
        ),
        ("9 positions and length=5; give one", "9 positions and --length 5; give one"),
        ("on purpose, declare masks.full()", "on purpose, declare --mask full"),
        (
            "pass inputs= that it reads",
            'have a factory return (model, {"inputs": ...}) that it reads',
        ),
        ("a larger `length` shows it", "a larger --length shows it"),
    ],
)
def test_words_of_python_are_options(said: str, wanted: str) -> None:
    from headwise.cli.audit.wording import as_options

    assert as_options(said) == wanted
    assert as_options(wanted) == wanted


OPTIONS = {
    "there is no mask 'causl'": ["--mask", "causl"],
    "for 1 layer; give at most one --mask": [
        "--mask",
        "causal",
        "--mask",
        "full",
        "--layers",
        "1",
    ],
    "has no tokenizer, so it reads no --text": ["--text", "it was"],
    "the device 'nowhere' cannot be used": ["--device", "nowhere"],
    "--text is empty": ["--text", "  "],
    "leave --length out": ["--text", "it was", "--length", "5"],
    "Invalid value for '--dimension'": ["--dimension", "past"],
    "Invalid value for '--weights'": ["--weights", "none"],
    "Invalid value for '--dtype'": ["--dtype", "int8"],
    "Invalid value for '--length'": ["--length", "1"],
    "--png cannot write 'x.jpg'": ["--png", "x.jpg"],
    "the JSON cannot be written to missing/x": ["--json", "missing/x"],
}


@pytest.mark.parametrize("said", OPTIONS)
def test_wrong_arguments_are_2(cli: Cli, own: str, said: str) -> None:
    answer = cli("audit", f"{own}:make", *OPTIONS[said])
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


@pytest.mark.parametrize("target", ["/no/such/folder", "./nothing.gguf", "."])
def test_a_model_that_is_not_there_is_2(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = cli("audit", target)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.strip().splitlines()) == 1


def test_a_folder_runs_in_transformers(cli: Cli, folder: Path) -> None:
    """Also where headwise has blocks of its own for it."""
    answer = cli("audit", folder, "--dimension", "future")
    assert answer.code == 0
    assert f"headwise: {folder} runs as LlamaForCausalLM of transformers " in answer.err


def test_a_leak_in_a_folder_is_found(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """Against a declared window that the model does not have."""
    how = ("--mask", "causal & window(2)", "--dimension", "future", "--length", "9")
    assert cli("audit", folder, *how).code == 1
    answer = cli("audit", folder, *how, "--json", "-")
    held = answer.data["outcomes"][0]
    assert held["verdict"] == "leak"
    assert all(q - k > 2 for q, k in held["pairs"])  # two layers reach two back


def test_a_text_names_its_tokens(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "it 书 at a"
    how = ("--text", text, "--dimension", "future")
    assert cli("audit", folder, *how).code == 0
    answer = cli("audit", folder, *how, "--mask", "causal & window(1)")
    assert answer.code == 1
    assert " sees 0 it" in " ".join(answer.out.split())
    for more in ((), ("--mask", "causal & window(1)")):  # clean, and not
        cli("audit", folder, *how, *more, "--svg", "text.svg")
        drawn = Path("text.svg").read_text(encoding="utf-8")
        Path("text.svg").unlink()
        assert ">it<" in drawn
        assert "position that sees" in drawn
    held = cli("audit", folder, *how, "--json", "-").data
    assert held["length"] == len(hw.load(folder).tokenizer.encode(text).ids)


@pytest.mark.models
def test_a_real_model_by_name(cli: Cli) -> None:
    torch.set_num_threads(1)
    text = "小明把书还给了图书馆,因为它到期了。"
    answer = cli("audit", "smollm2", "--dimension", "future", "--text", text, "--json", "-")
    assert answer.code == 0
    assert "smollm2 runs as LlamaForCausalLM of transformers" in answer.err
    assert answer.data["outcomes"][0]["verdict"] == "clean"
