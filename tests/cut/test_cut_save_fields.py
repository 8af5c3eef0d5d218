"""What a config.json says was cut: transformers 4's pruned_heads, our own field, and broken ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from save_families import checkpoint, config, main_output, weights
from torch import Tensor
from torch.testing import assert_close

import headwise as hw
from headwise.cut.example import example
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.record import cut_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.hub.kept import kept_of
from headwise.hub.load import load_in_transformers
from headwise.names import ConfigError, LayerId, ModelError

OLD = Path(__file__).with_name("pruned_by_transformers_4")
"""Checkpoints that transformers 4.51.3 wrote after prune_heads, with what it answered to some input."""

LEFT = {name: [(0, 2), None, (1, 3)] for name in ("bert", "gpt2", "distilbert", "vit")}
LEFT["albert"] = [(0, 2)]


def answers(model: hw.Model, inputs: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return main_output(model.outputs(inputs))


@pytest.mark.parametrize("load", [hw.load, load_in_transformers])
@pytest.mark.parametrize("name", LEFT)
def test_what_transformers_4_pruned_answers_as_it_did(name: str, load, tmp_path: Path) -> None:
    given = load_file(OLD / name / "answers.safetensors")
    answer = given.pop("answer")
    model = load(OLD / name, quiet=True)
    assert_close(answers(model, given), answer, atol=2e-6, rtol=2e-6)
    kept = [kept_of(layer.module) for layer in model.anatomy.layers]
    assert [k and k.heads for k in kept] == LEFT[name]
    again = hw.load(hw.save(model, tmp_path / "again").folder, quiet=True)
    assert again.foreign is model.foreign
    assert cut_of(again.module) == cut_of(model.module)
    assert_close(answers(again, given), answer, atol=2e-6, rtol=2e-6)
    assert "pruned_heads" not in config(tmp_path / "again")


def changed(folder: Path, **fields: Any) -> Path:
    said = config(folder) | fields
    (folder / "config.json").write_text(json.dumps(said))
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD / "gpt2", tmp_path / "gpt2"))


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ([1, 3], r"pruned_heads=\[1, 3\] cannot be read"),
        ({"0": 1}, r"pruned_heads=\{'0': 1\} cannot be read"),
        ({"first": [1]}, r"pruned_heads=\{'first': \[1\]\} cannot be read"),
        ({"7": [1]}, "pruned_heads names layer 7, and .* has 0 to 2"),
        ({"0": [9]}, "pruned_heads names head 9 of layer 0, which has 0 to 3"),
        ({"0": [1]}, r"gives \[.*\], config.json asks for \[.*do not belong together"),
    ],
)
def test_pruned_heads_that_cannot_be_are_refused_in_one_line(field, says: str, old: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        hw.load(changed(old, pruned_heads=field))
    assert "\n" not in str(caught.value)


def test_pruned_heads_of_nothing_are_nothing(tmp_path: Path) -> None:
    folder = changed(checkpoint("bert", tmp_path / "bert"), pruned_heads={})
    model = hw.load(folder)
    assert not model.foreign
    assert cut_of(model.module) is None


def test_pruned_heads_of_two_stacks_are_refused(tmp_path: Path) -> None:
    folder = changed(checkpoint("bart", tmp_path / "bart"), pruned_heads={"0": [1]})
    with pytest.raises(ConfigError, match=r"one stack, and .* has encoder and decoder"):
        hw.load(folder)


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    model = hw.load(checkpoint("llama", tmp_path / "before"))
    return hw.save(cut_heads(model, "0.1, 1.4"), tmp_path / "cut").folder


FIELDS = {
    "no table": ("yes", r'field "headwise" of config.json cannot be read: it holds \'yes\''),
    "no version": ({"cut": {}}, "cannot be read: it holds .* not a version and a cut"),
    "no cut": ({"version": 1}, "cannot be read: it holds .* not a version and a cut"),
    "a version from the future": (
        {"version": 2, "cut": {}},
        "saved by another headwise, in version 2; this one reads version 1: update",
    ),
    "a cut of another form": (
        {"version": 1, "class": "Decoder", "cut": {"kept": 3}},
        "what was cut of this model cannot be read",
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_a_field_of_another_form_is_refused_in_one_line(case: str, cut: Path) -> None:
    field, says = FIELDS[case]
    with pytest.raises(ConfigError, match=says) as caught:
        hw.load(changed(cut, headwise=field))
    assert "\n" not in str(caught.value)


def test_a_cut_of_another_model_is_refused(cut: Path) -> None:
    field = config(cut)["headwise"]
    shapes, kept = field["cut"]["shapes"], field["cut"]["kept"]
    for part, old, new in (
        (shapes, "blocks.0.attention.w_o.weight", "blocks.9.attention.w_o.weight"),
        (kept, "blocks.1.attention", "blocks.1.attend"),
    ):
        value = part.pop(old)
        part[new] = value
        with pytest.raises(ConfigError, match="of which the cut speaks; it is of another model"):
            hw.load(changed(cut, headwise=field))
        part[old] = part.pop(new)


def test_weights_that_are_not_of_the_cut_are_refused(cut: Path, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "before" / "model.safetensors", cut / "model.safetensors")
    with pytest.raises(ConfigError, match="the files do not belong together"):
        hw.load(cut)


def test_two_fields_that_say_a_cut_are_one_too_many(cut: Path) -> None:
    with pytest.raises(
        ConfigError, match="says twice what was cut, in headwise and in pruned_heads"
    ):
        hw.load(changed(cut, pruned_heads={"0": [1]}))


def test_a_cut_in_our_blocks_is_not_one_in_transformers(cut: Path) -> None:
    with pytest.raises(ModelError, match="cut in headwise's own blocks, not in transformers'"):
        load_in_transformers(cut)


def test_a_cut_in_transformers_stays_there(tmp_path: Path) -> None:
    model = load_in_transformers(checkpoint("llama", tmp_path / "before"))
    for heads, plain in (("0.1, 1.4", False), ("0.0-2, 1.3-5", True)):
        saved = hw.save(cut_heads(model, heads), tmp_path / heads)
        assert saved.plain is plain
        again = hw.load(saved.folder)
        assert again.foreign
        assert [kept_of(x.module).heads for x in again.anatomy.layers] == [
            kept_of(x.module).heads for x in cut_heads(model, heads).anatomy.layers
        ]


@pytest.mark.parametrize(("name", "heads"), [("llama", "0.0-2, 1.3-5"), ("mistral", "0.1, 1.5")])
def test_a_bias_that_stands_in_for_heads_is_saved(name: str, heads: str, tmp_path: Path) -> None:
    """Where the config has biases only all together, those of queries, keys and values are zeros."""
    model = hw.load(checkpoint(name, tmp_path / "before"), quiet=True)
    bias = torch.linspace(-1, 1, 24)  # one tensor for both layers, which are two on disk
    new = {LayerId("", n): NewOutput(None, bias) for n in range(2)}
    cut = cut_heads(model, heads, new)
    inputs = example(cut)
    saved = hw.save(cut, tmp_path / "cut")
    assert saved.plain is (name == "llama")
    again = answers(hw.load(saved.folder, quiet=True), inputs)
    assert_close(again, answers(cut, inputs), atol=1e-6, rtol=1e-6)
    names = [k for k, v in weights(saved.folder).items() if k.endswith("bias")]
    assert len(names) == (8 if saved.plain else 2)
    if saved.plain:
        theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
            saved.folder, output_loading_info=True
        )
        assert not any(report.values())
        with torch.no_grad():
            assert_close(main_output(theirs(**inputs)), again, atol=1e-5, rtol=1e-5)
