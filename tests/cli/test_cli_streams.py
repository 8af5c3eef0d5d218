"""Standard streams that are closed, or that know few characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_help import shell

TEXT = "小明 book"


@pytest.mark.parametrize("given", ["-", "--file -"])
def test_a_closed_stdin(folder: Path, given: str) -> None:
    done = shell(f"headwise look {given} --model {folder} <&-")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "headwise: the standard input is closed; give the text itself, or --file FILE\n"
    )


def test_a_closed_stdout(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = shell(f"headwise look hi --model {folder} --json {path} >&-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(path.read_text())["text"] == "hi"
    assert shell("headwise --help >&-").returncode == 0


def test_json_on_a_closed_stdout(folder: Path) -> None:
    done = shell(f"headwise look hi --model {folder} --json - >&-")
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "headwise: the JSON cannot be written: the standard output is closed\n"
    )


def test_a_closed_stderr(folder: Path) -> None:
    done = shell(f"headwise look hi --model {folder} --json - 2>&-")
    assert json.loads(done.stdout)["text"] == "hi"
    assert shell("headwise look 2>&-").returncode == 2
    assert shell(f"headwise look '' --model {folder} 2>&-").returncode == 1


@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict", "latin-1", "gbk"])
def test_an_encoding_without_the_characters(folder: Path, encoding: str) -> None:
    done = shell(f"headwise look '{TEXT}' --model {folder}", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"verified" in done.stdout
    wrong = shell(f"headwise look '{TEXT}' --model {folder} --word 狗", PYTHONIOENCODING=encoding)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(b"headwise: ")


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "utf-16"])
def test_json_is_utf8_whatever_the_encoding(folder: Path, encoding: str) -> None:
    done = shell(f"headwise look '{TEXT}' --model {folder} --json -", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(done.stdout.decode("utf-8"))
    assert found["text"] == TEXT
    assert TEXT in done.stdout.decode("utf-8")
