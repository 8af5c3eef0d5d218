"""headwise profile as several processes: the numbers of one, one voice, and nobody left waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from cli_help import environment

import headwise as hw
from headwise.cli import main
from headwise.see.profile.profiler import Profiler
from headwise.see.profile.together import Team
from headwise.see.texts.batches import Batch
from team_help import ends_of, forked, start_team

LINES = [f"It is {i}{' at' * (i % 4)}." for i in range(301)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def same(out: Path, folder: Path) -> None:
    alone = hw.profile(hw.load(folder), LINES, pool=4)
    shared = hw.load_profile(out)
    xr.testing.assert_allclose(shared, alone, rtol=1e-9, atol=1e-12)
    for name in ("texts", "pieces", "tokens"):
        assert shared.attrs[name] == alone.attrs[name]


def test_torchrun(folder: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "heads.nc"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = ["-m", "headwise", "profile", str(corpus), "--lines", "--model", str(folder)]
    done = subprocess.run(
        [*launcher, *command, "--pool", "4", "-o", str(out)],
        env=environment(OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("301 texts, ") == 1
    assert done.stderr.count("recomputed head outputs") == 1
    same(out, folder)


def told(team: Team, *arguments: str | Path) -> tuple[int, str, str]:
    """The command on this process of a team: exit code, standard output and standard error."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
    raise AssertionError("main ends by SystemExit")


def asks_after_a_batch(self: Profiler, batch: Batch, add: Any = Profiler.add) -> None:
    """Ctrl-C on this process alone."""
    add(self, batch)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_on_one_stops_all_and_the_run_goes_on(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another number of processes."""
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 300)
    out = tmp_path / "heads.nc"
    command = ("profile", corpus, "--lines", "--model", folder, "--pool", "4", "-o", out)

    def stopping(team: Team) -> Any:
        if team.rank == 1:
            monkeypatch.setattr(Profiler, "add", asks_after_a_batch)
        return told(team, *command)

    first, second = forked(2, stopping)
    assert first[:2] == (130, "")
    assert first[2].startswith("headwise: interrupted; ")
    assert first[2].endswith("go on with --resume\n")
    assert second == (1, "", "")
    part = hw.load_profile(out)
    assert 0 < part.attrs["texts"] < 150
    other = tmp_path / "other.txt"
    other.write_text("\n".join(["It was.", *LINES[1:]]))
    ends = forked(2, lambda team: told(team, "profile", other, *command[2:], "--resume"))
    assert [end[0] for end in ends] == [1, 1]
    assert "headwise: the texts are others than in the run to go on with" in ends[0][2]
    assert ends[1][2] == ""
    ends = forked(3, lambda team: told(team, *command, "--resume"))
    assert [end[0] for end in ends] == [0, 0, 0]
    same(out, folder)
    assert not Path(f"{out}.partial").exists()


def test_a_failure_on_one_is_told_once_and_keeps_the_rest(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 300)
    out = tmp_path / "heads.nc"

    def failing(team: Team) -> Any:
        if team.rank == 1:
            monkeypatch.setattr(Profiler, "add", lambda self, batch: 1 / 0)
        return told(team, "profile", corpus, "--lines", "--model", folder, "-o", out)

    first, second = forked(2, failing)
    assert first[0] == 1
    assert "headwise: process 1 of 2 failed: division by zero; " in first[2]
    assert second is None  # a fault of ours ends with its traceback
    assert hw.load_profile(out).attrs["texts"] > 0


def test_a_mistake_is_told_once(folder: Path, corpus: Path) -> None:
    ends = forked(2, lambda team: told(team, "profile", corpus, "--model", folder / "no"))
    assert [end[0] for end in ends] == [1, 1]
    (line,) = (ends[0][2] + ends[1][2]).strip().splitlines()
    assert line.startswith("headwise: ")


def test_the_standard_input_cannot_be_shared(folder: Path) -> None:
    for end in ends_of(start_team(2, "-m", "headwise", "profile", "-", "--model", str(folder))):
        assert end.code == 2
        assert "several processes cannot share the standard input" in end.err
