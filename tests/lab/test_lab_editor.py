"""W_O learned, fixed and missing, and whom it takes from: what is measured, and verdicts."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.lab.claims import editor
from headwise.lab.results import Results, Row

LEARNED, FIXED, NONE, MINI = editor.CLAIM.cases(True)


def rows(none=0.1, use=0.6, gain=0.4, mini=0.5, wide=0.0):
    """Five seeds: what is lost without W_O, and rank correlations."""
    found = []
    for seed in range(5):
        luck = wide * (seed - 2)
        chosen = {"use_z": 0.1, "use_result": use + luck, "use_gain": gain + luck, "share": 0.4}
        found += [
            Row(LEARNED, seed, {"loss": 3.0, **chosen}),
            Row(FIXED, seed, {"loss": 3.0 + none / 2 + luck}),
            Row(NONE, seed, {"loss": 3.0 + none + luck}),
            Row(MINI, seed, {**chosen, "use_result": mini + luck}),
        ]
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(), "holds"),
        (rows(gain=-0.4), "holds up to"),
        (rows(none=-0.1), "fails here"),
        (rows(mini=-0.5), "fails here"),
        (rows(wide=0.5), "not settled"),
    ],
)
def test_verdicts(made, kind):
    assert editor.CLAIM.judge(made).kind == kind


def test_a_fixed_output_stays_as_it_was_and_is_orthogonal(bench, monkeypatch):
    monkeypatch.setattr(type(bench), "steps", property(lambda self: 2))
    held = {}
    real = type(bench).learn

    def learn(self, module, seed, **given):
        outputs = [block.attention.w_o for block in module.blocks]
        held["before"] = [getattr(x, "weight", torch.zeros(0)).clone() for x in outputs]
        found = real(self, module, seed, **given)
        held["after"] = [getattr(x, "weight", torch.zeros(0)) for x in outputs]
        return found

    monkeypatch.setattr(type(bench), "learn", learn)
    editor.measure(bench, FIXED, 0)
    for before, after in zip(held["before"], held["after"], strict=True):
        assert torch.equal(before, after)
        square = before @ before.T
        assert torch.allclose(square, square[0, 0] * torch.eye(len(square)), atol=1e-6)
    editor.measure(bench, NONE, 0)
    assert not any(x.numel() for x in held["before"])


@pytest.mark.models
def test_lengths_are_those_that_w_o_reads():
    model = hw.load("mini", quiet=True)
    ids = torch.tensor([[5, 9, 200, 31, 77, 5, 9, 40]])
    read = []
    hooks = [
        layer.module.w_o.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        for layer in model.anatomy.layers
    ]
    with torch.no_grad():
        model.module(ids)
    for hook in hooks:
        hook.remove()
    wanted = [x.unflatten(-1, (4, -1)).norm(dim=-1).mean((0, 1)) for x in read]
    found = torch.from_numpy(editor.lengths(model, ids)).float()
    torch.testing.assert_close(found, torch.cat(wanted))
