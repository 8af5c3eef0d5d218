"""Where results stay when an output is closed or a disk is full: saved before the table, else rescued and told."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from cli_help import Cli, shell

import headwise as hw
from headwise.see.profile.partial import load_partial

full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("It is a cat at a mat.\nIt sat.\n")
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def fill(monkeypatch: pytest.MonkeyPatch, *heads: Path) -> None:
    """Let the disk be full below these folders."""
    plain = Path.write_bytes

    def writing(path: Path, data: bytes) -> int:
        if path.parent in heads or path.parent.parent in heads:
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(path, data)

    monkeypatch.setattr(Path, "write_bytes", writing)


@pytest.mark.parametrize("stdout", [">&-", "| true"])
def test_a_result_is_saved_whoever_reads_the_table(
    folder: Path, story: Path, tmp_path: Path, stdout: str
) -> None:
    out = tmp_path / "heads.nc"
    line = f"headwise profile {story} --model {folder} -o {out}"
    done = shell(f"{{ {line}; echo $? >{tmp_path}/rc; }} {stdout}")
    assert (tmp_path / "rc").read_text() == "0\n"
    assert done.stderr.decode().strip().endswith(f"wrote {out}")
    assert hw.load_profile(out).attrs["texts"] == 1


@full_device
def test_a_result_is_saved_where_the_table_does_not_fit(
    folder: Path, story: Path, tmp_path: Path
) -> None:
    out = tmp_path / "heads.nc"
    done = shell(f"headwise profile {story} --model {folder} -o {out} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().strip() == (
        f"headwise: the table cannot be written: No space left on device; {out} is whole"
    )
    assert hw.load_profile(out).attrs["texts"] == 1


@full_device
@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        (">&-", "the standard output is closed; give -o FILE"),
        (">/dev/full", "No space left on device; with -o a file would hold it"),
        ("| true", "Broken pipe; with -o a file would hold it"),
    ],
)
def test_a_table_that_nobody_gets_is_told(
    folder: Path, story: Path, tmp_path: Path, stdout: str, why: str
) -> None:
    line = f"headwise profile {story} --model {folder}"
    done = shell(f"{{ {line}; echo $? >{tmp_path}/rc; }} {stdout}")
    assert (tmp_path / "rc").read_text() == "1\n"
    assert done.stderr.decode() == f"headwise: the table cannot be written: {why}\n"


def test_a_full_disk_keeps_the_run_elsewhere(
    cli: Cli,
    folder: Path,
    story: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "results" / "heads.nc"
    out.parent.mkdir()
    with monkeypatch.context() as patch:
        fill(patch, out.parent)
        answer = cli("profile", story, "--model", folder, "-o", out)
    assert answer.code == 1
    (line,) = answer.err.strip().splitlines()
    (kept,) = temporary.iterdir()
    assert f"cannot be written to {out}: No space left on device" in line
    assert f"the result is kept in {kept}/heads.nc" in line
    assert f"the run is kept in {kept}/heads.nc.partial, move it to {out}.partial to go on" in line
    assert hw.load_profile(kept / "heads.nc").attrs["texts"] == 1
    assert load_partial(kept / "heads.nc.partial") is not None
    assert list(out.parent.iterdir()) == []


def test_where_nothing_fits_that_is_said(
    cli: Cli,
    folder: Path,
    story: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "results" / "heads.nc"
    out.parent.mkdir()
    fill(monkeypatch, out.parent, temporary)
    answer = cli("profile", story, "--model", folder, "-o", out)
    assert answer.code == 1
    (line,) = answer.err.strip().splitlines()
    assert "nothing of this run is kept: the temporary folder takes nothing either" in line
    assert list(temporary.iterdir()) == []


def test_a_fault_on_a_full_disk_keeps_what_is_before_it(
    cli: Cli,
    folder: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "results" / "heads.csv"
    out.parent.mkdir()
    path.write_text('{"text": "It is."}\n{')
    fill(monkeypatch, out.parent)
    answer = cli("profile", path, "--model", folder, "-o", out)
    (line,) = answer.err.strip().splitlines()
    (kept,) = temporary.iterdir()
    assert answer.code == 1
    assert "line 2 cannot be read as JSON" in line
    assert " tokens are done; the profile cannot be written to " in line
    assert f"the run is kept in {kept}/heads.csv.partial" in line


def test_a_fault_with_a_device_leaves_nothing_elsewhere(
    cli: Cli, folder: Path, tmp_path: Path, temporary: Path
) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "heads.csv"
    path.write_text('{"text": "It is."}\n{')
    out.symlink_to("/dev/null")
    answer = cli("profile", path, "--model", folder, "-o", out)
    assert answer.code == 1
    assert answer.err.strip().endswith(f" tokens are done and in {out}")
    assert list(temporary.iterdir()) == []
