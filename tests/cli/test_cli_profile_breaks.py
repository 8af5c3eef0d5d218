"""Corpora that break off what is before it is kept, and a run that goes on reads the rest alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cli_help import Cli

import headwise as hw
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import Batch

LINES = [f"It is {i}{' at' * (i % 4)}." for i in range(320)]


@pytest.fixture
def texts_added(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many texts were run through the model since it was asked last."""
    seen: list[int] = []
    add = Profiler.add

    def adding(self: Profiler, batch: Batch) -> None:
        seen.append(batch.size)
        add(self, batch)

    def asked() -> int:
        found = sum(seen)
        seen.clear()
        return found

    monkeypatch.setattr(Profiler, "add", adding)
    return asked


@pytest.mark.parametrize("broken", [[51], [257], [310], [51, 310], [2, 3]])
def test_a_mended_line_goes_on_from_there(
    cli: Cli, folder: Path, tmp_path: Path, broken: list[int], texts_added: Callable[[], int]
) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "heads.nc"
    lines = [json.dumps({"text": line}) for line in LINES]
    for number in broken:
        lines[number - 1] = "{"
    path.write_text("\n".join(lines))
    options = ("--model", folder, "--pool", "8", "-o", out)
    done = 0
    for number in broken:
        answer = cli("profile", path, *options, *(["--resume"] if done else []))
        assert answer.code == 1
        assert f"a.jsonl, line {number} cannot be read as JSON" in answer.err
        assert answer.err.strip().endswith(", go on with --resume")
        assert hw.load_profile(out).attrs["texts"] == number - 1
        assert texts_added() == number - 1 - done
        done = number - 1
        lines[done] = json.dumps({"text": LINES[done]})
        path.write_text("\n".join(lines))
    assert cli("profile", path, *options, "--resume").code == 0
    assert texts_added() == len(LINES) - done
    whole, found = hw.profile(hw.load(folder), LINES, pool=8), hw.load_profile(out)
    for name in ("texts", "pieces", "skipped", "tokens"):
        assert found.attrs[name] == whole.attrs[name]
    xr.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-6)  # batched otherwise: rounding
    assert not np.isnan(found["previous_low"].values).any()
    assert not Path(f"{out}.partial").exists()
