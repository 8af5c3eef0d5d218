"""assert_no_leak in a test suite: it passes where all is clean, and else says what is seen where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from headwise import HeadwiseError, assert_no_leak, masks
from headwise.check import asserting
from headwise.check.telling.report import Audit, Outcome


class Mix(nn.Module):
    def __init__(self, ahead: float) -> None:
        super().__init__()
        self.ahead = ahead

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x.cumsum(1) + self.ahead * x.roll(-1, 1))


class Toy(nn.Module):
    def __init__(self, ahead: float = 0.0, times: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.mix, self.times = nn.Embedding(64, 8), Mix(ahead), times

    def forward(self, ids: Tensor) -> Tensor:
        return self.mix(self.embed(ids)) * self.times


def test_a_clean_model_passes_and_gives_its_audit() -> None:
    found = assert_no_leak(Toy(), length=9)
    assert found.clean
    assert found.length == 9


def test_a_leak_is_told_with_its_place_and_positions() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_no_leak(Toy(ahead=0.1), dimensions=["future"], length=9)
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("Toy: not clean (")
    assert any(line.startswith("  future") and ": leak: " in line for line in lines)
    assert any("enters in mix (Mix), strength " in line for line in lines)
    assert any(" sees " in line for line in lines)


def test_a_mask_is_declared() -> None:
    assert_no_leak(Toy(ahead=0.1), masks.full())
    with pytest.raises(AssertionError, match="leak"):
        assert_no_leak(Toy(), masks.causal() & masks.window(2), layers=1, dimensions=["future"])


def test_nan_never_passes() -> None:
    with pytest.raises(AssertionError, match="NaN"):
        assert_no_leak(Toy(times=float("nan")))


def test_what_cannot_be_told_never_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = Outcome("future", "", "clean", "nothing moved")
    unknown = Outcome("rows", "", "unknown", "the edited row did not move")
    skipped = Outcome("memory", "", "skipped", "there is no encoder")
    differs = Outcome("cached", "", "differs", "it differs", 0.3, pairs=((4, 4),), advice="Shift.")
    leak = Outcome(
        "future", "train", "leak", "it moves", 0.3, module="", kind="Toy", pairs=((1, 2),) * 7
    )

    def given(*outcomes: Outcome) -> None:
        found = Audit("toy", outcomes, "causal()", 8, 1, "float64", "given", 0)
        monkeypatch.setattr(asserting, "audit", lambda *a, **k: found)

    given(clean, unknown)
    with pytest.raises(AssertionError, match=r"rows: unknown: the edited row did not move"):
        assert_no_leak(Toy())
    given(skipped)
    with pytest.raises(
        AssertionError, match=r"memory: skipped: there is no encoder\n.*nothing was"
    ):
        assert_no_leak(Toy())
    given()
    with pytest.raises(AssertionError, match="nothing was checked"):
        assert_no_leak(Toy())
    given(differs, clean, leak)
    with pytest.raises(AssertionError) as raised:
        assert_no_leak(Toy())
    assert str(raised.value).splitlines()[1:] == [
        "  future (train): leak: it moves",
        "    enters in Toy itself, strength 0.3",
        "    positions: 1 sees 2, 1 sees 2, 1 sees 2, 1 sees 2, 1 sees 2, ...",
        "  cached: differs: it differs",
        "    strength 0.3",
        "    differs at positions 4",
        "    Shift.",
    ]
    given(clean, skipped)
    assert assert_no_leak(Toy()).clean


def test_a_wrong_argument_is_no_assertion() -> None:
    with pytest.raises(HeadwiseError, match="past"):
        assert_no_leak(Toy(), dimensions=["past"])


def test_it_speaks_in_a_test_suite_of_others(tmp_path: Path) -> None:
    """Short, with the line of the test and nothing of our own code."""
    (tmp_path / "test_theirs.py").write_text(
        "import torch\n"
        "from headwise import assert_no_leak\n"
        "table = torch.randn(64, 8)\n"
        "def look_ahead(ids):\n"
        "    x = table.to(torch.float64)[ids]\n"
        "    return torch.tanh(x.cumsum(1) + x.roll(-1, 1))\n"
        "def test_look_ahead():\n"
        "    assert_no_leak(look_ahead, inputs=torch.arange(9)[None], dimensions=['future'])\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "AssertionError: " in done.stdout
    assert " sees " in done.stdout
    assert "assert_no_leak(look_ahead, inputs" in done.stdout
    assert "def assert_no_leak" not in done.stdout
