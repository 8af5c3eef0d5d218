"""What must not cost a run: another process, a damaged checkpoint, a lost log, leftovers of a kill, a full disk."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from fit_help import recipe, same, told, trained, weights
from test_train_bad import CONFIG, TEXT, _forked_with_limit

import headwise as hw
from headwise.cli.train.running import _tell
from headwise.names import ModelError, OutputError
from headwise.nn import save_checkpoint
from headwise.train import fitting
from headwise.train.checkpoints import _sums, checkpoints
from headwise.train.disk import Lock
from headwise.train.log import Line, Log, read_log
from headwise.train.processes import joined
from headwise.train.randomness import put_random, random_state, seed_all
from headwise.train.run import Run
from headwise.train.starting import resume


def steps(folder: Path) -> list[int]:
    return [int(one.name.removeprefix("step-")) for one in checkpoints(folder / "checkpoints")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    return trained(tmp_path_factory.mktemp("safe") / "run")


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy of a run that is done: checkpoints after step 8 and 12."""
    return Path(shutil.copytree(whole.folder, tmp_path / "run"))


def test_two_processes_do_not_train_in_one_folder(folder, whole, tmp_path):
    lock = Lock(folder)
    lock.take()
    before = {one: one.stat().st_mtime_ns for one in folder.rglob("*")}
    with pytest.raises(OutputError, match="another process trains in") as caught:
        trained(folder, resume=True)
    assert "\n" not in str(caught.value)
    assert before == {one: one.stat().st_mtime_ns for one in folder.rglob("*")}
    lock.close()
    assert same(trained(folder, resume=True), whole)
    other = Lock(tmp_path / "new")
    other.folder.mkdir()
    other.take()
    with pytest.raises(OutputError, match="another process trains in"):
        trained(other.folder)
    other.close()
    assert same(trained(other.folder), whole)


@pytest.mark.parametrize("kept", [None, 0, 3, 8])
def test_a_lost_log_does_not_lose_the_run(folder, whole, kept, monkeypatch):
    """Its clock and tokens go on from the checkpoint."""
    log = folder / "log.csv"
    shutil.rmtree(folder / "checkpoints" / "step-00000012")
    rows = log.read_text().splitlines(keepends=True)
    log.unlink() if kept is None else log.write_text("".join(rows[: kept + 1]))
    said: list[str] = []
    monkeypatch.setattr(fitting, "say", lambda line, quiet: said.append(line))
    again = trained(folder, resume=True)
    missing = 7 - min(kept or 0, 7)
    lost = [line for line in said if "lacks" in line]
    assert lost == (
        [
            f"fit: {log} lacks {missing} of the steps before 8, the first of them {(kept or 0) + 1}; "
            "going on without their lines"
        ]
        if missing
        else []
    )
    assert told(again) == [*told(whole)[: min(kept or 0, 7)], *told(whole)[7:]]
    assert all(torch.equal(x, weights(again)[name]) for name, x in weights(whole).items())


def test_the_clock_goes_on(folder):
    home = folder / "checkpoints"
    for place in checkpoints(home):
        said = json.loads((place / "state.json").read_text())
        said["line"]["seconds"] = 1000.0
        (place / "state.json").write_text(json.dumps(said))
        resum(place)
    shutil.rmtree(home / "step-00000012")
    seconds = [line.seconds for line in trained(folder, resume=True).log]
    assert 1000 < seconds[8] < seconds[9] < 1500


def resum(place: Path) -> None:
    """Checksums as they should be."""
    (place / "SHA256SUMS").write_text(_sums(place))


EDITS = {
    "random numbers": lambda said: said["random"][0]["python"][1].__setitem__(5, 7),
    "schedule": lambda said: said["schedule"].update(last_epoch=3),
    "misspelt": lambda said: said.update(rantom=said.pop("random")),
}


@pytest.mark.parametrize("edit", EDITS)
def test_every_part_of_a_checkpoint_is_checked(folder, whole, edit):
    path = folder / "checkpoints" / "step-00000012" / "state.json"
    said = json.loads(path.read_text())
    EDITS[edit](said)
    path.write_text(json.dumps(said, indent=1) + "\n")
    again = trained(folder, resume=True, stop=lambda: True)
    assert again.stopped == "stopped after step 9"
    assert same(trained(folder, resume=True), whole)


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', "[" * 100_000, '{"step": 8}'])
def test_what_is_no_checkpoint_is_passed_over(folder, text):
    """Also where its checksums are right; and one under another step's name."""
    place = folder / "checkpoints" / "step-00000012"
    (place / "state.json").write_text(text)
    resum(place)
    assert trained(folder, resume=True, stop=lambda: True).stopped == "stopped after step 9"


def test_the_checkpoint_just_written_stays(folder, whole):
    """Back past a damaged later one: that goes, whatever is kept."""
    path = folder / "checkpoints" / "step-00000012" / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    trained(folder, resume=True, recipe=recipe(keep=1), stop=lambda: True)
    assert steps(folder) == [9]
    assert same(trained(folder, resume=True), whole)


def test_a_full_disk_at_the_last_save_is_one_line(folder, whole):
    size = (folder / "model.safetensors").stat().st_size
    (folder / "model.safetensors").unlink()
    said = _forked_with_limit(lambda: trained(folder, resume=True), size - 100)
    assert "the model cannot be written to" in said
    assert "step-00000012" in said
    assert "\n" not in said
    assert not list(folder.glob(".headwise-*"))
    assert same(trained(folder, resume=True), whole)
    assert (folder / "model.safetensors").stat().st_size == size


def test_leftovers_of_a_kill_go(folder, whole, tmp_path):
    name = ".headwise-123-0a0b0c0d.part"
    (folder / name).write_text("half")
    assert same(trained(folder, resume=True), whole)
    assert not (folder / name).exists()
    fresh = tmp_path / "fresh"
    (fresh / name).mkdir(parents=True)
    assert same(trained(fresh), whole)
    assert not (fresh / name).exists()


@pytest.mark.parametrize("table", ["model", "train", "start"])
def test_what_was_asked_for_may_be_cut_short(tmp_path, table):
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    hw.fit([path], CONFIG, tmp_path / "run", quiet=True)
    asked = tmp_path / "run" / "run.toml"
    text = asked.read_text()
    asked.write_text(text[: text.index(f"[{table}]")])
    with pytest.raises(OutputError, match=r"run.toml is damaged: it says no \w+ in \[" + table):
        resume(tmp_path / "run", quiet=True)
    asked.write_text("".join(text.splitlines(keepends=True)[:-1]))
    with pytest.raises(OutputError, match=r"it says no tensor_parallel in \[start\]"):
        resume(tmp_path / "run", quiet=True)


def test_a_start_is_needed_until_there_is_a_checkpoint(tmp_path, monkeypatch):
    """By a relative path, from another folder; then the model it started from is gone."""
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    hw.fit([path], CONFIG, tmp_path / "first", quiet=True)
    train = {"train": {**CONFIG["train"], "save_every": 2}}
    monkeypatch.chdir(tmp_path)
    whole = hw.fit([path], train, "whole", init="first", quiet=True)
    again = tmp_path / "again"

    def stop() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hw.fit([path], train, again, init="first", quiet=True, stop=stop)
    monkeypatch.chdir(again)
    assert resume(again, quiet=True, stop=lambda: True).steps == 1
    shutil.rmtree(tmp_path / "first")
    assert same(resume(again, quiet=True), whole)


def test_what_must_be_on_the_disk_is(tmp_path, monkeypatch):
    """In this order: what was asked for, the log, and the log's lines before the checkpoint that counts on them."""
    seen: list[tuple[str, bytes]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        seen.append((str(path.relative_to(tmp_path)), path.read_bytes() if is_file else b""))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    trained(tmp_path / "run", recipe=recipe(steps=4))
    named = [name for name, _ in seen]
    part = "run/checkpoints/.step-00000004.part"
    order = [".", "run", "run/log.csv", part, "run/checkpoints"]
    at = [named.index(name) for name in order]
    assert at == sorted(at)
    assert {f"{part}/{name}" for name in ("state.safetensors", "state.json", "SHA256SUMS")} <= {
        *named
    }
    replaced = [held for name, held in seen if name.startswith("run/.headwise-")]
    assert [held[:6] for held in replaced] == [b"# What", b"step,l"]
    assert dict(seen)["run/log.csv"].count(b"\n") == 5
    assert named.count("run") >= 3


def test_the_log_that_cannot_be_opened_or_synced_is_one_line(folder, monkeypatch):
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    shutil.rmtree(folder / "checkpoints" / "step-00000012")
    monkeypatch.setattr(Log, "sync", full)
    with pytest.raises(
        OutputError, match=r"the log .* cannot be written: No space .*step-00000008"
    ):
        trained(folder, resume=True)
    monkeypatch.setattr(Log, "__init__", full)
    with pytest.raises(
        OutputError, match=r"the log .* cannot be written: No space .*step-00000008"
    ):
        trained(folder, resume=True)


def test_all_random_numbers_go_back():
    cpu = torch.device("cpu")
    seed_all(3)
    for draw in (random.random, np.random.rand, lambda: torch.rand(()).item()):
        before = json.loads(json.dumps(random_state(cpu)))
        drawn = draw()
        assert draw() != drawn
        put_random(before, cpu)
        assert draw() == drawn


def test_the_last_step_is_looked_at(tmp_path):
    run = trained(tmp_path / "run", recipe=recipe(steps=6))
    assert [step for step, _ in run.held_out] == [4, 6]
    assert len(read_log(tmp_path / "run" / "log.csv")) == 6


@pytest.mark.parametrize("device", ["foo", "meta", "cuda:99", "mps"])
def test_a_device_that_is_not_there_is_one_line(device):
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("it is there")
    with pytest.raises(ModelError, match=f"the device '{device}' cannot be used: .") as caught:
        joined(device)
    assert "\n" not in str(caught.value)


def test_a_loss_that_ran_away_is_told(whole, tmp_path, capsys):
    line = Line(1, 900.0, 1305.8, 1e-3, 1.0, 64, 3000, 0.1)
    save_checkpoint(whole.model, tmp_path)
    _tell(Run(whole.model, (line,), tmp_path, ""))
    assert "held out 1305.8000 (perplexity above 1e+304)" in capsys.readouterr().err
