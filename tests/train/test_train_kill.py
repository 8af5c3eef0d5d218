"""Killed (SIGKILL) at any moment, also in the midst of writing a checkpoint: the run goes on bit for bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fit_help import recipe, same, trained

from headwise.train import checkpoints as room
from headwise.train.checkpoints import checkpoints
from headwise.train.run import Run

LONG = recipe(steps=40, evaluate_every=7, save_every=3)
SHORT = recipe(steps=12, evaluate_every=5, save_every=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    return trained(tmp_path_factory.mktemp("whole") / "run", recipe=SHORT)


def forked(job: Callable[[], object]) -> int:
    """A copy of this process that does a job; its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            job()
            code = 0
        finally:
            os._exit(code)
    return child


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lines_of(folder: Path) -> int:
    log = folder / "log.csv"
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def test_killed_three_times_at_random(tmp_path):
    whole = trained(tmp_path / "whole", recipe=LONG)
    folder, chance = tmp_path / "run", random.Random(7)
    reached = 0
    for kill in range(3):
        child = forked(lambda: trained(folder, recipe=LONG, resume=(folder / "run.toml").exists()))
        wanted = min(reached + chance.randint(3, 9), 36)
        end = time.monotonic() + 60
        while lines_of(folder) < wanted and time.monotonic() < end:
            time.sleep(0.001 * chance.random())
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, f"kill {kill} came too late"
        reached = lines_of(folder)
        assert reached >= wanted
    assert 0 < reached < 40
    assert same(trained(folder, recipe=LONG, resume=True), whole)


def half_written(tensors, path):
    room_save(tensors, path)
    with Path(path).open("r+b") as file:
        file.truncate(Path(path).stat().st_size // 2)
    die()


room_save = room.save_file


def before_json(path, said):
    die()


def _when(count: int, real: Callable[..., object], after: bool) -> Callable[..., object]:
    """The real thing, and death at its n-th call, before or after it."""
    left = [count]

    def call(*given):
        left[0] -= 1
        if left[0] == 0 and not after:
            die()
        real(*given)
        if left[0] == 0:
            die()

    return call


MOMENTS = {
    "half of the tensors": ("save_file", lambda: half_written),
    "before the plain data": ("write_json", lambda: before_json),
    "before it is on the disk": ("_sync", lambda: _when(1, room._sync, False)),
    "before it is moved into place": ("_sync", lambda: _when(4, room._sync, True)),
    "moved, the folder not on the disk": ("_sync", lambda: _when(5, room._sync, False)),
    "before the old one goes": ("_remove", lambda: _when(1, room._remove, False)),
    "after the old one went": ("_remove", lambda: _when(1, room._remove, True)),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_a_checkpoint_is_written(tmp_path, whole, moment, monkeypatch):
    """At the third checkpoint, so that two stand: at least one of them is whole at every moment."""
    folder, name, make = tmp_path / "run", *MOMENTS[moment]
    real = getattr(room, name)

    def job() -> None:
        count = [0]
        writes = room.write_checkpoint

        def third(*given):
            count[0] += 1
            if count[0] == 3:
                setattr(room, name, make())
            return writes(*given)

        from headwise.train import course

        course.write_checkpoint = third
        trained(folder, recipe=SHORT)

    child = forked(job)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert getattr(room, name) is real
    stands = [one.name for one in checkpoints(folder / "checkpoints")]
    moved = moment in ("moved, the folder not on the disk", "before the old one goes")
    steps = (6, 9) if "went" in moment else (3, 6, 9) if moved else (3, 6)
    assert stands == [f"step-{step:08d}" for step in steps]
    assert same(trained(folder, recipe=SHORT, resume=True), whole)
    held = sorted(one.name for one in (folder / "checkpoints").iterdir())
    assert held == ["step-00000009", "step-00000012"]


def test_what_is_half_removed_is_no_checkpoint(tmp_path, whole):
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    home = folder / "checkpoints"
    left = home / ".step-00000006.old.part"
    left.mkdir()
    (left / "state.json").write_text("{}")
    assert [one.name for one in checkpoints(home)] == ["step-00000009", "step-00000012"]
    shutil.rmtree(home / "step-00000012")
    assert same(trained(folder, recipe=SHORT, resume=True), whole)
    assert not left.exists()
