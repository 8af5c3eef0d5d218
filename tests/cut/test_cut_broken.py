"""What goes wrong around a cut: a record somebody changed, scores of another model, an ablation in force."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.record import Cut
from headwise.hub.load import load_in_transformers
from headwise.names import ConfigError, HeadError, ModelError

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

IDS = torch.arange(1, 19).view(2, 9)

KEPT = {"heads": [0, 2, 3], "groups": [1, 2], "kv_heads": [0, 1], "num_heads": 4, "num_kv_heads": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"heads": [0, 0, 0]},
        {"heads": [0, 2, 900]},
        {"heads": [0, -1, 3]},
        {"groups": [1, 1]},
        {"groups": [3]},
        {"groups": [0, 3]},
        {"kv_heads": [0, 7]},
        {"num_heads": "four"},
    ],
)
def test_heads_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    held = {"kept": {"attention": copy.deepcopy(KEPT)}, "shapes": {}, "numbers": {}}
    assert Cut.from_dict(held).kept["attention"].heads == (0, 2, 3)
    held["kept"]["attention"] |= change
    with pytest.raises(ConfigError, match=r"cannot be read .*save it anew"):
        Cut.from_dict(held)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        ({"forward": 1}, "no cut changes 'forward'"),
        ({"scaling": 2}, "no cut changes 'scaling'"),
        ({"config.use_cache": 0}, "no cut changes 'config.use_cache'"),
        ({"width": 10**9}, "the number 1000000000"),
        ({"num_heads": -1}, "the number -1"),
    ],
)
def test_numbers_that_no_cut_changes_are_refused(number: dict[str, int], says: str) -> None:
    held = {"kept": {}, "shapes": {}, "numbers": {"attention": {"config.num_heads": 3, "width": 8}}}
    assert Cut.from_dict(held).as_dict() == held
    held["numbers"]["attention"] = number
    with pytest.raises(ConfigError, match=f"cannot be read .*{says}.*save it anew"):
        Cut.from_dict(held)


def test_shapes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"the number 1000000000000\)"):
        Cut.from_dict({"kept": {}, "shapes": {"weight": [10**12, 4]}, "numbers": {}})


@pytest.mark.parametrize("load", [hw.load, load_in_transformers])
def test_a_new_model_of_a_cut_ones_config_counts_its_own_heads(
    load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = hw.save(hw.prune(hw.load(build("llama")), "*.0 *.3"), tmp_path / "cut")
    assert saved.plain
    assert census(load(saved.folder, quiet=True)).runs[0].heads == (1, 2, 4, 5)
    assert "is left out" not in capsys.readouterr().err
    config = transformers.AutoConfig.from_pretrained(
        saved.folder, num_attention_heads=6, num_key_value_heads=2
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "new")
    assert census(load(tmp_path / "new", quiet=True)).runs[0].heads == (0, 1, 2, 3, 4, 5)
    assert "is of a model with other heads and is left out" in capsys.readouterr().err


def test_scores_of_another_model_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    model = hw.load(build("llama"))
    scores = hw.importance(model, IDS, quiet=True)
    hw.prune(model, scores=scores, keep=0.5)
    assert capsys.readouterr().err == ""
    scores.attrs["model"] = "tiny-llama"
    hw.prune(model, scores=scores, keep=0.5)
    assert "the scores are of tiny-llama" in capsys.readouterr().err


def test_what_stands_in_the_way_of_a_cut_is_said() -> None:
    model = hw.load(build("llama"))
    with hw.ablate(model, "0.0"), torch.no_grad():
        model.module(input_ids=IDS)
        with pytest.raises(ModelError, match="heads of it are ablated; leave the `with` first"):
            hw.prune(model, "0.1")
        with pytest.raises(ModelError, match="cannot be regrouped: heads of it are ablated; leave"):
            hw.regroup(model, 1)
    with pytest.raises(ModelError, match=r"write -1 for the number of heads"):
        hw.prune(hw.load(build("bloom")), "0.1")
    with pytest.raises(HeadError, match=r"one module that runs 3 times.* name it as \*\.2"):
        hw.prune(hw.load(build("albert")), "1.2")
    empty = hw.prune(model, "*")
    with pytest.raises(ModelError, match="has no head left: all were cut"):
        hw.look(empty, {"input_ids": IDS})


def test_an_uneven_cut_runs_flex_attention() -> None:
    pruned = hw.prune(hw.load(build("llama")), "0.1 1.0 1.1")
    with torch.no_grad():
        wanted = pruned.module(input_ids=IDS).logits
        pruned.module.set_attn_implementation("flex_attention")
        came = pruned.module(input_ids=IDS).logits
    torch.testing.assert_close(came, wanted, atol=1e-4, rtol=1e-4)


def test_a_layer_without_heads_keeps_its_place_among_weights() -> None:
    pruned = hw.prune(hw.load(build("llama", "eager")), "0.*")
    with torch.no_grad():
        weights = pruned.module(input_ids=IDS, output_attentions=True).attentions
    assert [w.shape[1] for w in weights] == [0, 6]


def test_an_uneven_model_that_was_pickled_runs_in_a_new_process(tmp_path: Path) -> None:
    pruned = hw.prune(hw.load(build("llama")), "0.1 1.0 1.1")
    torch.save(pruned.module, tmp_path / "p.pt")
    with torch.no_grad():
        wanted = float(pruned.module(input_ids=IDS).logits.double().sum())
    code = (
        "import sys, torch; m = torch.load(sys.argv[1], weights_only=False)\n"
        "ids = torch.arange(1, 19).view(2, 9)\n"
        "print(float(m(input_ids=ids).logits.double().sum()))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(tmp_path / "p.pt")]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert float(told.stdout) == pytest.approx(wanted, abs=1e-3)
