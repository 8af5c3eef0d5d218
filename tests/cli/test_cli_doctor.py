"""headwise doctor says what is in use, and why."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import transformers
from cli_help import Cli, environment

from headwise.core import kernel


def lines(cli: Cli) -> dict[str, str]:
    answer = cli("doctor")
    assert (answer.code, answer.err) == (0, "")
    pairs = [line.split("  ", 1) for line in answer.out.splitlines()]
    return {name.strip(): said.strip() for name, said in pairs}


def test_what_is_in_use(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    said = lines(cli)
    path = kernel.status().path
    assert ("plain torch" if path == "portable" else f"({path})") in said["statistics by"]
    assert kernel.status().why in said["statistics by"]
    assert torch.__version__ in said["torch"]
    assert said["transformers"] == transformers.__version__
    assert said["devices"].startswith("cpu")
    assert said["mini"].startswith("in the package, ")


def test_forced_off(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "off")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path))
    said = lines(cli)
    assert said["statistics by"] == "plain torch: HEADWISE_KERNEL=off"
    assert said["models"].startswith(str(tmp_path))


def test_a_wrong_value_is_said_and_no_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "sse9")
    assert "HEADWISE_KERNEL='sse9' is no path" in lines(cli)["statistics by"]


def test_its_help_needs_no_torch() -> None:
    code = "import sys; from headwise.cli import app; import headwise.cli.doctor; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
