"""Weights of a parallel model: whole states, checkpoints of torch.distributed, FSDP beside heads."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from parallel_help import config, inputs, loud, off, pair, split, trained
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from headwise.names import ModelError
from headwise.nn import Decoder, load_checkpoint, save_checkpoint
from headwise.nn.parallel import by_heads, full_state
from team_help import forked


@torch.no_grad()
@pytest.mark.parametrize("assign", [False, True])
def test_a_parallel_model_takes_a_whole_state(assign):
    ids, _ = inputs()

    def job(mesh):
        one = loud(num_kv_heads=4, activation="swiglu")
        two = by_heads(Decoder(one.config).double(), mesh)
        two.load_state_dict(one.state_dict(), assign=assign)
        return off(one, two), (one(ids) - two(ids)).abs().max().item()

    for weights, logits in split(2, job):
        assert weights == 0
        assert logits < 1e-9


def test_saving_a_split_model_says_what_to_save(tmp_path: Path):
    def job(mesh):
        with pytest.raises(
            ModelError, match="Decoder is split over processes; save one that is not"
        ):
            save_checkpoint(by_heads(Decoder(config()), mesh), tmp_path)
        return True

    assert all(split(2, job))


def test_a_state_of_another_model_is_refused():
    def job(mesh):
        two = by_heads(Decoder(config()), mesh)
        with pytest.raises(RuntimeError, match=r"blocks\.0\.attention\.w_qkv"):
            two.load_state_dict(Decoder(config(num_kv_heads=4)).state_dict())
        with pytest.raises(RuntimeError, match=r"embedding\.tokens\.weight"):
            two.load_state_dict(Decoder(config(vocab_size=40)).state_dict())
        return True

    assert all(split(2, job))


@torch.no_grad()
def test_a_checkpoint_is_read_by_another_number_of_processes(tmp_path: Path):
    fields = {"num_heads": 12, "num_kv_heads": 3, "head_dim": 4, "activation": "swiglu"}

    def write(mesh):
        two = by_heads(loud(**fields), mesh)
        dcp.save(two.state_dict(), checkpoint_id=tmp_path)
        return True

    def read(mesh):
        three = by_heads(Decoder(config(**fields)).double(), mesh)
        state = three.state_dict()
        dcp.load(state, checkpoint_id=tmp_path)
        three.load_state_dict(state)
        return off(loud(**fields), three)

    assert all(split(2, write))
    assert split(3, read) == [0, 0, 0]


def test_fully_shard_on_our_blocks_learns_what_one_process_does():
    def job(mesh):
        one = loud(num_kv_heads=4)
        two = copy.deepcopy(one)
        for block in two.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(two, mesh=mesh)
        rank = mesh.get_local_rank()
        mine = torch.tensor(trained(two, lambda ids: ids.chunk(2)[rank], outside=False))
        dist.all_reduce(mine)
        return trained(one), (mine / 2).tolist(), off(one, two)

    for losses, ours, weights in split(2, job):
        assert losses == pytest.approx(ours, abs=1e-6)
        assert weights < 1e-5


def test_heads_beside_data():
    def job(team):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "heads"))
        one, two = pair(mesh["heads"], loud(num_kv_heads=4))
        for block in two.blocks:
            fully_shard(block, mesh=mesh["data"])
        fully_shard(two, mesh=mesh["data"])
        rank = mesh["data"].get_local_rank()
        trained(two, lambda ids: ids.chunk(2)[rank], outside=False)
        trained(one)
        return off(one, two)

    found = forked(4, job)
    assert None not in found
    assert max(found) < 1e-5


@torch.no_grad()
@pytest.mark.models
@pytest.mark.parametrize(("name", "size"), [("smollm2", 3), ("minilm", 2)])
def test_a_real_model_over_processes(name, size):
    get = pytest.importorskip("headwise.hub.get")
    model = load_checkpoint(Path(get.get(name)), dtype=torch.float64)  # rounding differs by CPU
    model.blocks = model.blocks[:3]
    ids = torch.randint(1000, 20000, (2, 12), generator=torch.Generator().manual_seed(0))
    whole = model(ids)

    def job(mesh):
        two = by_heads(model, mesh)
        return (two(ids) - whole).abs().max().item(), len(full_state(two))

    for wrong, names in split(size, job):
        assert wrong < 1e-4
        assert names == len(model.state_dict())
