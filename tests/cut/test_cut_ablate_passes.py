"""Ablation over passes of other kinds: checkpointed training, parts that do not run, modules that change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.cut.census import census

HUB = Path(__file__).parents[1] / "hub"
sys.path.append(str(HUB))
from tiny_models import build, inputs_of  # noqa: E402

IDS = torch.arange(1, 21).view(2, 10)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_backward_pass_after_the_with_is_of_the_ablated_model(reentrant: bool) -> None:
    """Checkpointed layers would run again in it, without their edits."""
    grads = []
    for checkpointed in (False, True):
        module = build("llama").train()
        if checkpointed:
            module.gradient_checkpointing_enable({"use_reentrant": reentrant})
            module.enable_input_require_grads()
        with hw.ablate(hw.load(module), "0.0, 1.1"):
            loss = module(input_ids=IDS, labels=IDS).loss
        loss.backward()
        grads.append(module.model.layers[0].self_attn.v_proj.weight.grad)
        layers = [m for m in module.modules() if hasattr(m, "gradient_checkpointing")]
        assert all(m.gradient_checkpointing is checkpointed for m in layers)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("reentrant", [True, False])
def test_importance_of_a_checkpointed_model(reentrant: bool) -> None:
    module = build("llama")
    wanted = hw.importance(hw.load(module), {"input_ids": IDS}, "gate", dropout=True, quiet=True)
    module.gradient_checkpointing_enable({"use_reentrant": reentrant})
    came = hw.importance(hw.load(module), {"input_ids": IDS}, "gate", dropout=True, quiet=True)
    assert float(abs(came.importance - wanted.importance).max()) < 1e-6
    assert float(came.importance.min()) > 0


def test_resampling_is_the_same_in_every_process() -> None:
    code = """
import sys; sys.path.append(sys.argv[1])
import torch, headwise as hw
from tiny_models import build, inputs_of
model, inputs = hw.load(build("t5")), inputs_of("t5")
with torch.no_grad(), hw.ablate(model, "encoder.0.0", "resample", texts=inputs, seed=3):
    print(float(model.module(**inputs).logits.double().sum()))
"""
    told = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(HUB)]
        told.append(subprocess.run(command, env=env, capture_output=True, text=True, check=True))
    assert told[0].stdout == told[1].stdout != ""


def test_layers_that_did_not_run_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = hw.load(build("t5")), inputs_of("t5")
    with torch.no_grad():
        seen = model.module.encoder(input_ids=inputs["input_ids"])
        with hw.ablate(model, "decoder.0.0, encoder.0.0"):
            model.module(encoder_outputs=seen, decoder_input_ids=inputs["decoder_input_ids"])
    assert "the layers encoder.0 did not run" in capsys.readouterr().err
    with torch.no_grad(), hw.ablate(model, "decoder.0.0, encoder.0.0"):
        model.module(**inputs)
    assert capsys.readouterr().err == ""


def test_a_model_that_lost_a_layer_is_counted_anew() -> None:
    model = hw.load(build("llama"))
    before = len(census(model).runs)
    model.module.model.layers = model.module.model.layers[:1]
    model.module.config.num_hidden_layers = 1
    assert len(census(model).runs) == 1 < before
    with pytest.raises(hw.HeadwiseError, match=r"1\.0 is not there"), hw.ablate(model, "1.0"):
        pass


def test_measuring_a_loss_leaves_every_part_in_its_mode() -> None:
    model = hw.load(build("llama"))
    model.module.train()
    model.module.model.layers[0].eval()
    before = [part.training for part in model.module.modules()]
    hw.loss(model, IDS)
    assert [part.training for part in model.module.modules()] == before
