"""Heads of a model of ours over two processes go by their ids in the whole model, whatever looks at them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from parallel_help import inputs, loud, pair, split

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.names import ModelError

HEADS = (
    {"num_kv_heads": 4},
    {"num_kv_heads": 1, "positions": "alibi"},
    {
        "num_heads": 6,
        "num_kv_heads": 3,
        "head_dim": 8,
    },  # the second KV head is read on both processes
)
IDS = inputs()[0]
VERBS = (
    hw.look,
    hw.profile,
    hw.ablate,
    hw.prune,
    hw.save,
    hw.circuits,
)  # imported once, not in each process


def test_the_record_and_the_profile_are_those_of_one_process():
    def job(mesh):
        found = []
        for fields in HEADS:
            one, two = (hw.load(m.eval()) for m in pair(mesh, loud(**fields).float()))
            a, b = (hw.look(model, {"input_ids": IDS[:1]})[0] for model in (one, two))
            assert a.heads() == b.heads()
            assert [x.naming for x in a.layers.values()] == [x.naming for x in b.layers.values()]
            table, other = (hw.profile(model, IDS) for model in (one, two))
            for variable, values in table.items():
                np.testing.assert_allclose(other[variable], values, atol=1e-5, err_msg=variable)
            found += [np.abs(a.weights(h) - b.weights(h)).max() for h in a.heads()]
            found.append(b.verified)
        return max(found)

    assert max(split(2, job)) < 1e-5


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_ablated_heads_are_those_of_one_process(how):
    given = {"texts": IDS} if how == "mean" else {}

    def job(mesh):
        found = []
        for module in pair(mesh, loud(num_kv_heads=4).eval()):
            model = hw.load(module)
            with hw.ablate(model, ["0.1", "1.6"], how=how, **given), torch.no_grad():
                found.append(module(IDS))
        return (found[0] - found[1]).abs().max().item(), (found[0] - module(IDS)).abs().max().item()

    for wrong, changed in split(2, job):
        assert wrong < 1e-6
        assert changed > 0.01


@torch.no_grad()
def test_a_gate_over_all_heads():
    def job(mesh):
        found = []
        for module in pair(mesh, loud(num_kv_heads=4).eval()):
            gate = Tap(gate=torch.linspace(-1, 1, 8).double())
            with tapped({module.blocks[1].attention: gate}):
                found.append(module(IDS))
        return (found[0] - found[1]).abs().max().item()

    assert max(split(2, job)) < 1e-9


def test_a_model_that_lost_heads_is_split_by_those_it_kept():
    """Layer 0 keeps 2, 1, 2 and 1 heads of its groups, layer 1 none."""
    gone = ["0.2", "0.7", *(f"1.{head}" for head in range(8))]

    def job(mesh):
        cut = hw.prune(hw.load(loud(num_kv_heads=4, positions="alibi").eval()), heads=gone)
        one, two = pair(mesh, cut.module)
        a, b = (hw.look(hw.load(m), {"input_ids": IDS[:1]})[0] for m in (one, two))
        assert a.heads() == b.heads()
        wrong = [np.abs(a.weights(h) - b.weights(h)).max() for h in a.heads()]
        return one.blocks[0].attention.groups, (one(IDS) - two(IDS)).abs().max().item(), max(wrong)

    for groups, logits, weights in split(2, job):
        assert groups == (2, 1, 2, 1)
        assert max(logits, weights) < 1e-6


def test_what_reads_whole_weights_says_so():
    def job(mesh):
        model = hw.load(pair(mesh, loud())[1])
        said = []
        for verb in (hw.circuits, lambda m: hw.prune(m, heads=["0.1"]), lambda m: hw.save(m, "x")):
            with pytest.raises(ModelError) as error:
                verb(model)
            said.append(str(error.value))
        return said

    for said in split(2, job):
        assert all("split over processes" in line for line in said)
