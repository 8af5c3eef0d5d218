"""importance of models whose heads a tensor parallel plan splits over processes: as in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cut_help import build
from importance_worker import METHODS, ROWS

import headwise as hw

NAMES = ("llama", "llama-mha", "phi3")
"""Of the last one each process attends with all heads."""

WORKER = Path(__file__).with_name("importance_worker.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes wrote down of each model."""
    folder = tmp_path_factory.mktemp("shards")
    for name in NAMES:
        build(name).save_pretrained(folder / name)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
    }
    ran = subprocess.run(
        [*command, str(WORKER), str(folder)], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_each_process_ranks_all_heads(name: str, found: Path) -> None:
    model = hw.load(build(name), quiet=True)
    for method in METHODS:
        wanted = hw.importance(model, ROWS, method, quiet=True)["importance"].values  # type: ignore[arg-type]
        assert np.abs(wanted).max() > 1e-3
        for rank in (0, 1):
            mine = np.load(found / f"{name}.{rank}.npz")[method]
            np.testing.assert_allclose(mine, wanted, rtol=1e-3, atol=2e-5, err_msg=method)
