"""headwise serve on the command line: what it needs, what it refuses, and that help costs nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_help import Cli


def test_what_is_not_installed_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "uvicorn" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    answer = cli("serve", "--port", "0")
    assert answer.code == 1
    assert answer.err == (
        "headwise: serve needs uvicorn, not installed here; pip install 'headwise[serve]'\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--models", "nowhere"], "there is no folder nowhere"),
        (["--host", "no such host"], "cannot be listened on"),
        (["--port", "70000"], "70000"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    cli: Cli, given: list[str], said: str
) -> None:
    answer = cli("serve", *given)
    assert answer.code in (1, 2)
    assert said in answer.err


def test_a_folder_without_models_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a")
    answer = cli("serve", "--models", tmp_path)
    assert answer.code == 1
    assert "no model is in" in answer.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom headwise.cli import main\n"
        "try:\n    main(['serve', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"
    assert "--models FOLDER" in out.stdout
