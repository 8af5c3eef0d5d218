"""Heads split over two processes by transformers' tensor parallel plan keep their ids in the whole model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import build, inputs_of

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.hub.shards import Shard, global_heads, shard_of

SPLIT = {"llama": True, "qwen3": True, "gemma2": True, "llama-mha": True, "phi3": False}
"""Whether each process attends with its own heads only (Phi-3's plan gathers queries, keys and values first)."""

WORKER = Path(__file__).with_name("shards_worker.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Path:
    """What two processes wrote down of each model."""
    folder = tmp_path_factory.mktemp("shards")
    for name in SPLIT:
        build(name).save_pretrained(folder / name)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    paths = [str(WORKER.parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*command, str(WORKER), str(folder)], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", SPLIT)
def test_each_process_has_the_whole_record(name: str, rank: int, seen: Path) -> None:
    mine = np.load(seen / f"{name}.{rank}.npz")
    (record,) = hw.look(hw.load(build(name)), inputs_of(name))
    for head in record.heads():
        np.testing.assert_allclose(mine[str(head)], record.weights(head), atol=1e-5, rtol=0)
    assert mine["verified"] < 1e-5
    layer = record.layers[hw.HeadId("", 1, 0).layer_id]
    assert str(hw.HeadId("", 1, layer.num_heads)) not in mine


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", SPLIT)
def test_the_heads_of_a_process_by_their_global_ids(name: str, rank: int, seen: Path) -> None:
    mine = np.load(seen / f"{name}.{rank}.npz")
    assert mine["ids"].tolist() == list(range(3 * rank, 3 * rank + 3) if SPLIT[name] else range(6))
    loaded = hw.load(build(name))
    z: list[torch.Tensor] = []
    observe = Tap((lambda scores, v, out: z.append(out),))
    with loaded.open(), tapped({loaded.anatomy.layers[1].module: observe}):
        loaded.run(inputs_of(name))
    np.testing.assert_allclose(mine["z"], z[0][:, mine["ids"]].numpy(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", SPLIT)
def test_a_gate_over_all_heads(name: str, rank: int, seen: Path) -> None:
    mine, loaded = np.load(seen / f"{name}.{rank}.npz"), hw.load(build(name))
    gate = Tap(gate=torch.linspace(-1, 1, 6))
    with loaded.open(), tapped({loaded.anatomy.layers[1].module: gate}):
        whole = loaded.run({**inputs_of(name), "logits_to_keep": 0}).logits
    np.testing.assert_allclose(mine["gated"], whole.numpy(), atol=5e-5, rtol=1e-5)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", SPLIT)
def test_each_process_has_the_whole_profile(name: str, rank: int, seen: Path) -> None:
    mine = np.load(seen / f"{name}.{rank}.npz")
    rows = torch.cat([inputs_of(name)["input_ids"]] * 2)
    table = hw.profile(hw.load(build(name)), rows, top=2, pool=3, positions=4)
    assert np.isfinite(table.result_share).all()
    for variable, values in table.items():
        np.testing.assert_allclose(mine[f"table {variable}"], values, atol=1e-4, err_msg=variable)
    np.testing.assert_array_equal(mine["kv_group"], table.kv_group)


def test_a_model_in_one_process_is_not_split() -> None:
    layer = hw.load(build("llama")).anatomy.layers[0].module
    assert shard_of(layer, 6) is None
    assert global_heads(layer, 6) == range(6)


def test_a_share_is_a_run_of_heads() -> None:
    assert list(Shard(None, 2, 4).global_heads(3)) == [6, 7, 8]
