"""The numbers of a step: from which weights, in which precision, and how the losses are summed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from fit_help import Counting, recipe, tiny, trained

import headwise as hw
from headwise.names import ConfigError
from headwise.train.objectives import loss_of
from headwise.train.precision import precision

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = {
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2},
    "train": {"context": 16, "rows": 4, "steps": 1, "dtype": "float32", "held_out": 0.0},
    "tokenizer": {"vocab_size": 270},
}


def test_the_seed_names_the_first_weights_whatever_was_drawn_before(tmp_path):
    def loss(name: str, before: int, seed: int) -> float:
        torch.manual_seed(before)
        config = {**CONFIG, "train": {**CONFIG["train"], "seed": seed}}
        return hw.fit([TEXT], config, tmp_path / name, quiet=True).log[0].loss

    assert loss("a", 1, 0) == loss("b", 2, 0)
    assert loss("c", 1, 5) != loss("d", 1, 0)


def test_bfloat16_is_what_was_asked_for():
    assert precision("bfloat16", torch.device("cpu"))[0] is torch.bfloat16
    assert precision("float32", torch.device("cpu"))[0] is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_step_runs_in_the_precision_that_was_asked_for(tmp_path, dtype):
    module, kinds = tiny(), set()
    linear = next(one for one in module.modules() if isinstance(one, torch.nn.Linear))
    linear.register_forward_hook(lambda own, given, out: kinds.add((module.training, out.dtype)))
    trained(tmp_path / "run", module=module, recipe=recipe(steps=1, dtype=dtype), held=False)
    assert kinds == {(True, getattr(torch, dtype))}


def test_the_losses_of_a_model_in_bfloat16_are_summed_in_float32():
    module, batch = tiny(0.0).to(torch.bfloat16), Counting().batch(1)
    found, count = loss_of(module, batch)
    logits = module(batch.inputs["ids"]).flatten(0, 1).float()
    wanted = F.cross_entropy(logits, batch.goal.flatten(), ignore_index=-100, reduction="sum")
    assert found.dtype is torch.float32
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    assert count == batch.tokens


def test_a_model_that_no_memory_holds_is_refused(tmp_path):
    config = {**CONFIG, "model": {**CONFIG["model"], "d_model": 10**9}}
    with pytest.raises(ConfigError, match=r"\[model\] asks for cannot be made: .*memory") as caught:
        hw.fit([TEXT], config, tmp_path / "run", quiet=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
