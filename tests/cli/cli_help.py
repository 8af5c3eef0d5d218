"""What the tests of the command line share: running it in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SENTENCE = "The animal didn't cross the street because it was too tired"
COMMAND = [sys.executable, "-c", "from headwise.cli import main; main()"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Runs `headwise ...` in this process, with what a person sees."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str | Path) -> Answer:
        from headwise.cli import main

        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in arguments])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        return Answer(int(stop.value.code or 0), out, err)


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(p for p in sys.path if p)
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return {**kept, "PYTHONPATH": path, **more}


def start(*arguments: str | Path, **how: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own, its three streams piped."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), **{**pipes, **how})


def run(*arguments: str | Path, given: bytes = b"") -> Answer:
    process = start(*arguments)
    out, err = process.communicate(given, timeout=120)
    assert b"Traceback" not in err
    return Answer(process.returncode, out.decode(), err.decode())


def shell(line: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell runs it, `headwise` standing for it."""
    command = line.replace("headwise", shlex.join(COMMAND), 1)
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        env=environment(**more),
        timeout=120,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    return done
