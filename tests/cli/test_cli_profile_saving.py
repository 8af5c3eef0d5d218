"""When a run saves what is done, what it reads of a file, and what it refuses before a model is fetched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from cli_help import Cli

import headwise as hw
from headwise.cli.profile.keeping import Keeper
from headwise.names import ModelError
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import Batch


@dataclass
class Clock:
    """Seconds that pass when told to."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(("takes", "pause"), [(0.1, 60), (10.0, 300)])
def test_what_is_done_is_saved_early_and_seldom(
    cli: Cli,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    takes: float,
    pause: float,
) -> None:
    clock, saved, add = Clock(), list[float](), Profiler.add

    def adding(self: Profiler, batch: Batch) -> None:
        clock.now += 5
        add(self, batch)

    def saving(self: Keeper, partial: object) -> None:
        saved.append(clock.now)
        clock.now += takes

    monkeypatch.setattr("headwise.cli.profile.running.time", clock)
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 1)
    monkeypatch.setattr(Profiler, "add", adding)
    monkeypatch.setattr(Keeper, "save", saving)
    path = tmp_path / "lines.txt"
    path.write_text("It is.\n" * 140)
    assert cli("profile", path, "--lines", "--model", folder, "-o", tmp_path / "a.nc").code == 0
    assert 10 < saved[0] <= 15
    assert len(saved) > 1
    gaps = [later - before - takes for before, later in pairwise(saved)]
    assert all(pause - 1e-6 < gap < pause + 5.1 for gap in gaps)


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_document_is_read_without_its_last_line_end(
    cli: Cli, folder: Path, tmp_path: Path, end: str
) -> None:
    path, out, text = tmp_path / "a.txt", tmp_path / "a.nc", "It is a cat.\n\nIt sat.\n\n"
    path.write_bytes((text.rstrip("\n") if not end else text).encode() + end.encode())
    assert cli("profile", path, "--model", folder, "-o", out).code == 0
    alone = hw.profile(hw.load(folder), text if end else text.rstrip("\n"))
    assert hw.load_profile(out).attrs["tokens"] == alone.attrs["tokens"]


def test_a_model_that_reads_no_text_is_refused_before_it_is_fetched(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.cli.reading.load", None)
    path = tmp_path / "a.txt"
    path.write_text("It is.")
    answer = cli("profile", path, "--model", "whisper-tiny-en")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "headwise: whisper-tiny-en reads input_features, not text; pass them from Python: "
        "hw.profile(model, {'input_features': ...})\n"
    )


def test_one_more_text_is_one(folder: Path) -> None:
    model = hw.load(folder)
    with torch.no_grad():
        model.module.get_parameter("blocks.1.attention.w_qkv.weight").fill_(float("nan"))
    for count, said in ((1, ""), (2, " and 1 more text"), (3, " and 2 more texts")):
        with pytest.raises(ModelError) as error:
            hw.profile(model, ["It is."] * count)
        assert f"'It is.'{said}: its weights" in str(error.value)


def test_what_equals_the_model_is_said_so(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Profiler.dataset
    for path, said in (
        ("portable", "portable (plain torch): "),
        ("kernel", "compiled kernel, avx2; "),
    ):
        monkeypatch.setattr(
            "headwise.cli.profile.running.kernel.status",
            lambda: hw.core.kernel.KernelStatus("avx2", "it is there"),
        )
        monkeypatch.setattr(
            Profiler,
            "dataset",
            lambda self, path=path: dataset(self).assign_attrs(verified=0.0, path=path),
        )
        (tmp_path / "a.txt").write_text("It is.")
        (line,) = cli("profile", tmp_path / "a.txt", "--model", folder).err.splitlines()
        assert f", {said}" in line
        assert line.endswith("; recomputed head outputs equal the model's own exactly")
