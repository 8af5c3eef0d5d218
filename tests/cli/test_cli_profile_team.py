"""headwise profile as several processes: the numbers of one, one voice, and nobody left waiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
from cli_help import environment

import headwise as hw
from team_help import ends_of, start_team

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
    assert done.stderr.count("verified within") == 1
    same(out, folder)


SMALL = """
import os, signal
from headwise.cli import main
from headwise.see import packing
from headwise.see.profiling import Profiler
packing.MOST_TOKENS = 300
"""
ASKING = """
add = Profiler.add
def adding(self, batch):  # asks to stop after its first batch, as Ctrl-C on this process alone does
    add(self, batch)
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGINT)
Profiler.add = adding
"""


def test_ctrl_c_on_one_stops_all_and_the_run_goes_on(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another number of processes."""
    out = tmp_path / "heads.nc"
    options = ("--lines", "--model", str(folder), "--pool", "4", "-o", str(out))
    command = ("profile", str(corpus), *options)
    first, second = ends_of(start_team(2, "-c", f"{SMALL}{ASKING}main()", *command))
    assert (first.code, second.code) == (130, 1), first.err
    assert "headwise: interrupted; " in first.err
    assert "go on with --resume" in first.err
    assert (second.out, second.err) == ("", "")
    part = hw.load_profile(out)
    assert 0 < part.attrs["texts"] < 150
    ends = ends_of(start_team(3, "-c", f"{SMALL}main()", *command, "--resume"))
    assert [end.code for end in ends] == [0, 0, 0], [end.err for end in ends]
    monkeypatch.setattr("headwise.see.packing.MOST_TOKENS", 300)
    same(out, folder)
    assert not Path(f"{out}.partial").exists()


def test_a_mistake_is_told_once(folder: Path, corpus: Path) -> None:
    command = ("-m", "headwise", "profile", str(corpus), "--model", f"{folder}/no")
    ends = ends_of(start_team(2, *command))
    assert [end.code for end in ends] == [1, 1]
    (line,) = (ends[0].err + ends[1].err).strip().splitlines()
    assert line.startswith("headwise: ")


def test_the_standard_input_cannot_be_shared(folder: Path) -> None:
    for end in ends_of(start_team(2, "-m", "headwise", "profile", "-", "--model", str(folder))):
        assert end.code == 2
        assert "several processes cannot share the standard input" in end.err
