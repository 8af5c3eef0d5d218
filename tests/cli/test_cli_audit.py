"""headwise audit: planted leaks through a factory, exit codes, JSON, pictures, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_help import Answer, Cli, environment, start
from PIL import Image
from rich.cells import cell_len

from headwise.check.telling.report import DIMENSIONS, Outcome
from headwise.cli.audit.command import _DIMENSIONS

TOYS = '''
import torch
from torch import nn


class Toy(nn.Module):
    """Sums over the past; position 2 reads position 5 as well where it leaks."""

    def __init__(self, leak=0.0, times=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.mix, self.leak, self.times = nn.Embedding(64, 8), Mix(leak), leak, times

    def forward(self, ids):
        return self.mix(self.embed(ids)) * self.times


class Mix(nn.Module):
    def __init__(self, leak):
        super().__init__()
        self.leak = leak

    def forward(self, x):
        y = x.cumsum(1)
        if self.leak:
            y = y + torch.cat([0 * x[:, :2], self.leak * x[:, 5:6], 0 * x[:, 3:]], 1)
        return torch.tanh(y)


class Window(nn.Module):
    """Sees itself and two before."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 8)

    def forward(self, ids):
        x = self.embed(ids)
        past = nn.functional.pad(x, (0, 0, 2, 0))
        return torch.tanh(x + past[:, 1:-1] + past[:, :-2])


def clean():
    return Toy()


def leaky():
    return Toy(leak=0.1)


class Closed(Toy):
    """A leak behind a gate that is shut, as training may leave it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8, bias=False)
        nn.init.zeros_(self.gate.weight)

    def forward(self, ids):
        return super().forward(ids) + self.gate(self.embed(ids).roll(-1, 1))


def closed():
    return Closed()


def nan():
    return Toy(times=float("nan"))


def window():
    return Window()


def function():
    table = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return lambda ids: table.to(torch.float64)[ids].cumsum(1), {"inputs": torch.arange(9)[None]}


def longer():
    return Toy(), {"length": 9, "dimensions": ["future"]}
'''


@pytest.fixture
def audit(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[..., Answer]:
    """`headwise audit` of a factory of the toys, which lie in a module of this test alone."""
    monkeypatch.chdir(tmp_path)
    module = f"toys_{abs(hash(request.node.nodeid))}"
    Path(f"{module}.py").write_text(textwrap.dedent(TOYS), encoding="utf-8")
    return lambda factory, *more: cli("audit", f"{module}:{factory}", *more)


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_dimensions_are_those_of_the_audit() -> None:
    assert _DIMENSIONS == DIMENSIONS


def test_clean_is_0_and_a_leak_is_1(audit: Callable[..., Answer]) -> None:
    answer = audit("clean")
    assert (answer.code, answer.err) == (0, "")
    assert "Toy: clean" in answer.out
    answer = audit("leaky", "--dimension", "future", "--length", "12")
    assert answer.code == 1
    assert "2 sees 5" in answer.out
    assert "mix (Mix)" in answer.out
    drawn = [line for line in answer.out.splitlines() if "X" in line and "may" not in line]
    assert [line.split()[0] for line in drawn] == ["2"]
    assert all(cell_len(line) <= 80 for line in answer.out.splitlines())


def test_nan_is_2_and_never_clean(audit: Callable[..., Answer]) -> None:
    answer = audit("nan")
    assert answer.code == 2
    assert "could not be told" in answer.out
    assert "NaN" in answer.out
    assert audit("nan", "--json", "-").data["clean"] is False


def test_a_declared_mask(audit: Callable[..., Answer]) -> None:
    how = ("--dimension", "future", "--length", "12")
    assert audit("window", "--mask", "causal & window(3)", "--layers", "1", *how).code == 0
    answer = audit("window", "--mask", "causal & window(2)", "--layers", "1", *how)
    assert answer.code == 1
    assert "2 sees 0" in words(answer.out)
    assert audit("window", "--mask", "causal & window(2)", "--layers", "2", *how).code == 0
    masks = ("--mask", "window(1)", "--mask", "causal & window(2)")
    assert audit("window", *masks, *how).code == 1  # one layer each: two positions
    assert audit("window", *masks, "--layers", "4", *how).code == 0  # in turn


def test_a_function_of_the_users_and_arguments(audit: Callable[..., Answer]) -> None:
    answer = audit("function", "--json", "-")
    assert answer.code == 0
    assert answer.data["length"] == 9
    held = audit("longer", "--json", "-").data
    assert (held["length"], {o["dimension"] for o in held["outcomes"]}) == (9, {"future"})
    held = audit("longer", "--json", "-", "--length", "11", "--dimension", "rows").data
    assert (held["length"], {o["dimension"] for o in held["outcomes"]}) == (11, {"rows"})


def test_json_holds_what_is_shown(audit: Callable[..., Answer], tmp_path: Path) -> None:
    answer = audit("leaky", "--json", "leak.json", "--dimension", "future", "--seed", "3")
    assert answer.code == 1
    assert answer.err == "wrote leak.json\n"
    held = json.loads((tmp_path / "leak.json").read_text(encoding="utf-8"))
    assert (held["clean"], held["seed"]) == (False, 3)
    (worst, *_) = [o for o in held["outcomes"] if o["verdict"] == "leak"]
    assert worst["pairs"][0] == [2, 5]
    assert worst["module"] == "mix"
    assert worst["allowed"][2][5] is False
    assert worst["measured"][2][5] > 0
    answer = audit("leaky", "--json", "-", "--dimension", "future")
    assert (answer.code, answer.data["clean"]) == (1, False)


def test_both_kinds_of_weights(audit: Callable[..., Answer]) -> None:
    answer = audit("leaky", "--weights", "both", "--dimension", "future", "--json", "-")
    assert [one["weights"] for one in answer.data["audits"]] == ["given", "wide"]
    answer = audit("closed", "--weights", "both", "--dimension", "future", "--json", "-")
    assert [one["clean"] for one in answer.data["audits"]] == [True, False]
    assert (answer.code, answer.data["clean"]) == (1, False)
    how = ("--weights", "both", "--dimension", "future", "--png", "both.png")
    assert "wrote both.png (weights wide; weights given not drawn)\n" in audit("closed", *how).err
    answer = audit("clean", "--weights", "both", "--dimension", "future")
    assert answer.code == 0
    assert answer.out.count("Toy: clean") == 2


def test_pictures(audit: Callable[..., Answer], tmp_path: Path) -> None:
    how = ("--dimension", "future", "--png", "leak.png", "--svg", "leak.svg")
    assert audit("leaky", *how).code == 1
    with Image.open("leak.png") as image:
        image.load()
    svg = (tmp_path / "leak.svg").read_text(encoding="utf-8")
    assert "measured: future" in svg
    assert "#d55e00" in svg  # the outline
    (tmp_path / "leak.svg").unlink()
    assert audit("clean", *how).code == 0
    assert (tmp_path / "leak.svg").exists()
    answer = audit("clean", "--dimension", "memory", "--png", "none.png")
    assert "none.png is not drawn: no outcome holds a map" in answer.err
    assert not (tmp_path / "none.png").exists()


def test_ctrl_c_shows_what_was_found(
    audit: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.check import auditing

    def interrupted(*_: object) -> list[Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(auditing, "CHECKS", {**auditing.CHECKS, "padding": interrupted})
    answer = audit("leaky", "--json", "part.json")
    assert answer.code == 130
    assert "2 sees 5" in answer.out
    assert "it was stopped before its end" in " ".join(answer.out.split())
    assert answer.err.splitlines()[-1] == "headwise: interrupted; what was found before is shown"
    held = json.loads(Path("part.json").read_text(encoding="utf-8"))
    assert {o["dimension"] for o in held["outcomes"]} == {"future"}
    assert (held["clean"], held["stopped"]) == (None, True)
    assert not {"declared", "dtype"} & set(held)  # which are not known
    assert re.search(r": stopped; 1 leak, in \d ways to run, so far ", words(answer.out))
    answer = audit("clean", "--dimension", "padding")
    assert (answer.code, answer.out, answer.err.strip()) == (130, "", "headwise: interrupted")
    answer = audit("clean", "--mask", "causal")
    assert answer.code == 130  # and never 0
    assert ": stopped; nothing bad so far" in answer.out
    assert ": clean\n" not in answer.out
    assert "declared: causal; " in answer.out
    held = audit("clean", "--weights", "both", "--json", "-").data
    assert (held["clean"], held["stopped"], len(held["audits"])) == (None, True, 1)


def test_ctrl_c_while_the_model_runs(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(
        "import time, torch\n"
        "def run(ids):\n"
        "    print('runs', flush=True)\n"
        "    time.sleep(60)\n"
        "def make():\n"
        "    return run, {'inputs': torch.arange(9)[None]}\n"
    )
    heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = start("audit", "sleeper:make", cwd=tmp_path, preexec_fn=heed)
    assert process.stderr is not None
    assert process.stderr.readline() == b"runs\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.strip()) == (130, b"", b"headwise: interrupted")


def test_help_and_wrong_use_import_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom headwise.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print('HEAVY', sorted({'torch', 'numpy', 'rich'} & set(sys.modules)), file=sys.stderr)\n"
    )
    for arguments in (["--help"], [], ["x:y", "--dimension", "past"], ["x:y", "--png", "x.jpg"]):
        command = [sys.executable, "-c", code, "audit", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), timeout=60, check=False
        )
        assert done.stderr.splitlines()[-1] == "HEAVY []"
        assert done.returncode == (0 if arguments == ["--help"] else 2)
