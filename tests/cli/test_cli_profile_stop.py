"""Runs that are stopped: what is done is kept, and a run that goes on ends with the numbers of a whole one."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import xarray as xr
from cli_help import Answer, Cli, start

import headwise as hw
from headwise.see.profile.profiler import Profiler

LINES = [f"It is {i}{' at' * (i % 4)}." for i in range(320)]
"""More than are put in order at a time (256)."""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of few tokens: some five of the first 256 texts, two of the rest."""
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 500)


@pytest.fixture
def whole(folder: Path) -> xr.Dataset:
    return hw.profile(hw.load(folder), LINES, pool=8)


def same(one: xr.Dataset, other: xr.Dataset) -> None:
    for name in ("texts", "pieces", "skipped", "tokens"):
        assert one.attrs[name] == other.attrs[name]
    xr.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@contextmanager
def fed(fifo: Path) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Writes the corpus into a pipe: up to line 300 and many empty ones, then, when told to, the rest.

    The first event says that all but some kB of that were read, so the run is under way.
    """
    under_way, go_on = threading.Event(), threading.Event()

    def feed() -> None:
        with suppress(BrokenPipeError), fifo.open("wb", buffering=0) as pipe:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
            pipe.write("".join(line + "\n" * 60 for line in LINES[:300]).encode())
            under_way.set()
            go_on.wait(60)
            pipe.write("".join(line + "\n" for line in LINES[300:]).encode())

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    yield under_way, go_on
    go_on.set()
    thread.join(60)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs pipes of a chosen size")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_is_done(
    cli: Cli, folder: Path, corpus: Path, whole: xr.Dataset, tmp_path: Path, number: signal.Signals
) -> None:
    fifo, out = tmp_path / "fifo", tmp_path / "heads.nc"
    os.mkfifo(fifo)
    options = ("--lines", "--model", folder, "--pool", "8", "-o", out)
    with fed(fifo) as (under_way, go_on):
        process = start("profile", fifo, *options, stdin=subprocess.DEVNULL)
        assert under_way.wait(120)
        process.send_signal(number)
        go_on.set()
        shown, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert shown == b""
    lines = [line for line in error.decode().splitlines() if line]
    assert lines[0] == "headwise: stopping after the batch that runs; Ctrl-C again stops at once"
    assert lines[1].startswith("headwise: interrupted; ")
    assert lines[1].endswith(f"are done and in {out}, go on with --resume")
    part = hw.load_profile(out)
    assert 0 < part.attrs["texts"] < len(LINES)
    assert f"; {part.attrs['texts']} texts, " in lines[1]
    answer = cli("profile", corpus, *options, "--resume")
    assert answer.code == 0
    same(hw.load_profile(out), whole)
    assert [path.name for path in tmp_path.iterdir() if path != fifo] == ["heads.nc"]


class Crash(BaseException):
    """What no handler catches, as where the process is killed."""


def killed(cli: Cli, monkeypatch: pytest.MonkeyPatch, after: int, *arguments: str | Path) -> None:
    """A run that ends without a word at a batch, having saved after each one before."""
    add, left = Profiler.add, [after]

    def adding(self: Profiler, batch: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        add(self, batch)  # type: ignore[arg-type]

    from headwise.cli import main

    with monkeypatch.context() as patch:
        for name in ("_FIRST", "_EVERY", "_LEAST_PAUSE"):
            patch.setattr(f"headwise.cli.profile.running.{name}", -1.0)
        patch.setattr(Profiler, "add", adding)
        with pytest.raises(Crash):
            main(["profile", *map(str, arguments)])
    cli.capsys.readouterr()


def test_a_killed_run_goes_on_from_what_was_saved(
    cli: Cli,
    folder: Path,
    corpus: Path,
    small: None,
    whole: xr.Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "heads.nc"
    arguments = (corpus, "--lines", "--model", folder, "--pool", "8", "-o", out)
    killed(cli, monkeypatch, 2, *arguments)
    assert not out.exists()
    before = Path(f"{out}.partial").stat().st_size
    assert before > 0
    killed(cli, monkeypatch, 2, *arguments, "--resume")
    seen: list[int] = []
    add = Profiler.add
    monkeypatch.setattr(Profiler, "add", lambda self, batch: (seen.append(1), add(self, batch))[1])
    assert cli("profile", *arguments, "--resume").code == 0
    same(hw.load_profile(out), whole)
    batches = 4 + len(seen)
    seen.clear()
    assert cli("profile", *arguments).code == 0
    assert len(seen) == batches  # none was run twice


@pytest.fixture
def stopped(
    cli: Cli,
    folder: Path,
    corpus: Path,
    small: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The result of a run that was killed after its fourth batch, which held some of the first 256 texts."""
    out = tmp_path / "heads.nc"
    killed(cli, monkeypatch, 4, corpus, "--lines", "--model", folder, "--pool", "8", "-o", out)
    return out


def refused(answer: Answer, out: Path) -> str:
    assert answer.code == 1
    (line,) = answer.err.strip().splitlines()
    assert Path(f"{out}.partial").exists()
    assert not out.exists()
    return line


def test_what_differs_is_refused(
    cli: Cli, folder: Path, corpus: Path, stopped: Path, tmp_path: Path
) -> None:
    usual = ("--lines", "--model", folder, "--pool", "8", "-o", stopped, "--resume")

    def line(*options: str | Path) -> str:
        return refused(cli("profile", *options), stopped)

    assert "with pool 8, this run has 4" in line(corpus, *usual, "--pool", "4")
    assert "with probes previous, next, " in line(corpus, *usual, "--probe", "first")
    assert "with context 8000, this run has 50" in line(corpus, *usual, "--context", "50")
    assert "with weights " in line(corpus, *usual, "--dtype", "bfloat16")
    other = tmp_path / "other.txt"
    other.write_text("\n".join(["It was.", *LINES[1:]]))
    assert "the texts are others than in the run to go on with, which had read" in line(
        other, *usual
    )
    other.write_text("\n".join(LINES[:100]))
    assert "the texts are fewer than" in line(other, *usual)
    assert "go on from there with --resume, or remove" in line(corpus, *usual[:-1])
    Path(f"{stopped}.partial").write_bytes(b"broken")
    assert "cannot be read" in line(corpus, *usual)


def test_a_corpus_that_grew_goes_on(
    cli: Cli, folder: Path, stopped: Path, tmp_path: Path, whole: xr.Dataset
) -> None:
    """Only what was read must be as it was; where a corpus had been read to its end, it may not grow."""
    more = tmp_path / "more.txt"
    more.write_text("\n".join([*LINES, "It is one more."]))
    options = ("--lines", "--model", folder, "--pool", "8", "-o", stopped)
    assert cli("profile", more, *options, "--resume").code == 0
    assert hw.load_profile(stopped).attrs["texts"] == whole.attrs["texts"] + 1


def test_a_corpus_read_to_its_end_may_not_grow(
    cli: Cli,
    folder: Path,
    corpus: Path,
    small: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "heads.nc"
    options = ("--lines", "--model", folder, "-o", out)
    killed(cli, monkeypatch, 1, corpus, *options, "--limit", "200")
    line = refused(cli("profile", corpus, *options, "--resume"), out)
    assert "the texts are more than in the run to go on with, which had read 200" in line
    assert cli("profile", corpus, *options, "--limit", "200", "--resume").code == 0


def test_nothing_to_go_on_with(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "a.txt", tmp_path / "heads.csv"
    path.write_text("It is a cat.")
    answer = cli("profile", path, "--model", folder, "-o", out, "--resume")
    assert answer.code == 0
    first = answer.err.splitlines()[0]
    assert first == f"headwise: no unfinished run beside {out}; starting from the beginning"
    assert out.exists()
    first = cli("profile", path, "--model", folder, "-o", out, "--resume").err.splitlines()[0]
    assert first == (
        f"headwise: no unfinished run beside {out} (which the new one replaces); "
        "starting from the beginning"
    )
