"""headwise lab stopped: what was measured stands, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_help import environment

import lab_help

TESTS = Path(__file__).parents[1]
CODE = f"""
import sys; sys.path.insert(0, {str(TESTS)!r})
import pytest, lab_help
from pathlib import Path
lab_help.SLOW = float(sys.argv[1])
with pytest.MonkeyPatch.context() as patch:
    lab_help.registered(patch, Path("lessons"))
    from headwise.cli import main
    main(sys.argv[2:])
"""


def start(folder, slow):
    lessons = folder / "lessons"
    if lessons.exists():
        import shutil

        shutil.rmtree(lessons)
    arguments = ("lab", "tiny", "--quick", "--text", "text.txt", "-o", "runs")
    command = [sys.executable, "-c", CODE, str(slow), *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def kept(folder):
    path = folder / "runs" / "tiny.jsonl"
    return path.read_text(encoding="utf-8").count("\n") - 1 if path.exists() else -1


def wait_for(process, folder, rows):
    for _ in range(1200):
        if kept(folder) >= rows or process.poll() is not None:
            break
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1].decode()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_keeps_what_was_measured(tmp_path):
    lab_help.text_file(tmp_path)
    process = start(tmp_path, 1)
    wait_for(process, tmp_path, 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    before = kept(tmp_path)
    assert f"tiny has {before} of 4 measurements" in err.decode()
    assert b"the same command goes on" in err
    process = start(tmp_path, 0)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert kept(tmp_path) == 4


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_kill_costs_the_measurement_under_way(tmp_path):
    lab_help.text_file(tmp_path)
    process = start(tmp_path, 1)
    wait_for(process, tmp_path, 2)
    process.kill()
    process.communicate(timeout=60)
    path = tmp_path / "runs" / "tiny.jsonl"
    stood = path.read_text(encoding="utf-8").splitlines()[1:3]
    process = start(tmp_path, 0)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert path.read_text(encoding="utf-8").splitlines()[1:3] == stood
    assert kept(tmp_path) == 4
