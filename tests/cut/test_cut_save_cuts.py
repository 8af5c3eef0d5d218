"""Models that were cut, saved and loaded in a new process: the same answers, the same text, the same ids."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from save_families import OURS, checkpoint, config, outputs
from torch import Tensor
from torch.testing import assert_close

import headwise as hw
from headwise.cut.example import example
from headwise.cut.pruning.record import Cut, cut_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.saving.saving import Saved

UNEVEN = {
    "llama": "0.1, 1.4-5",
    "llama mqa": "0.0, 1.2-4",
    "llama tied": "0.0-2, 1.*",
    "gpt2": "0.1-2, 1.0",
    "gpt2 base": "0.*",
    "bert": "0.3, 1.1-2",
    "bert with a head": "*.0",
    "mistral": "0.1, 1.4",
    "neox": "0.0, 1.2-4",
    "phi3": "0.0-2, 1.4",
    "opt": "0.1-3",
    "t5": "encoder.0.1, decoder.0.*, decoder.1.0, cross.1.2-3",
    "bart": "encoder.1.*, decoder.0.2, cross.0.*",
    "whisper": "encoder.0.1, decoder.1.*, cross.0.2-3, cross.1.*",
    "vit": "0.1-2, 1.*",
    "albert": "*.2, *.4",
    "llama mha": "0.1, 1.5",
    "qwen2": "*.0",
}
"""Cuts that no config.json of transformers can say."""

EVEN = {
    "llama": "0.0-2, 1.3-5",
    "llama mha": "0.1-2, 1.4-5",
    "llama mqa": "0.1-2, 0.5, 1.0, 1.4-5",
    "llama biases": "*.0, *.3",
    "mistral": "0.1, 0.4, 1.0, 1.5",
    "qwen2": "0.0-2, 1.3-5",
    "qwen3": "*.2, *.5, 0.0, 1.1, *.3",
}
"""Cuts that leave every layer as many heads, which the config says."""


@dataclass
class Trip:
    """A model that was cut, saved, and loaded in a new process."""

    model: hw.Model
    saved: Saved
    expected: dict[str, Tensor]
    found: dict[str, Tensor]
    inputs: dict[str, Any]


def saved_cut(name: str, heads: str, folder: Path) -> tuple[hw.Model, Saved, dict[str, Any]]:
    model = hw.load(checkpoint(name, folder / "before"), quiet=True)
    assert model.foreign is (name not in OURS)
    cut = cut_heads(model, heads)
    inputs = {k: v for k, v in example(cut).items() if isinstance(v, Tensor)}
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "inputs.safetensors")
    return cut, hw.save(cut, folder / "model"), inputs


def trips(cases: dict[str, str], how: str, root: Path) -> dict[str, Trip]:
    """All of them through one new process."""
    made = {}
    for name, heads in cases.items():
        (root / name).mkdir()
        made[name] = saved_cut(name, heads, root / name)
    script = Path(__file__).with_name("save_reloading.py")
    folders = [str(root / name) for name in cases]
    run = subprocess.run(
        [sys.executable, str(script), how, *folders],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not run.returncode, run.stderr[-3000:]
    return {
        name: Trip(
            m, saved, outputs(m, inputs), load_file(root / name / "found.safetensors"), inputs
        )
        for name, (m, saved, inputs) in made.items()
    }


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trip]:
    return trips(UNEVEN, "headwise", tmp_path_factory.mktemp("uneven"))


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trip]:
    return trips(EVEN, "transformers", tmp_path_factory.mktemp("even"))


@pytest.mark.parametrize("name", UNEVEN)
def test_a_cut_model_answers_and_writes_the_same_in_a_new_process(
    name: str, uneven: dict[str, Trip]
) -> None:
    trip = uneven[name]
    assert not trip.saved.plain
    assert trip.found.keys() == trip.expected.keys()
    assert_close(trip.found["answer"], trip.expected["answer"], atol=1e-6, rtol=1e-6)
    if "written" in trip.expected:
        assert torch.equal(trip.found["written"], trip.expected["written"])
        assert trip.expected["written"].shape[1] > 4


@pytest.mark.parametrize("name", UNEVEN)
def test_a_cut_model_keeps_what_was_cut_of_it(name: str, uneven: dict[str, Trip]) -> None:
    trip = uneven[name]
    again = hw.load(trip.saved.folder, quiet=True)
    assert cut_of(again.module) == cut_of(trip.model.module)
    assert type(again.module) is type(trip.model.module)
    state = again.module.state_dict()
    assert all(torch.equal(state[k], v) for k, v in trip.model.module.state_dict().items())
    assert config(trip.saved.folder)["headwise"]["version"] == 1


@pytest.mark.parametrize("name", [n for n in UNEVEN if n != "llama base"])
def test_transformers_refuses_what_it_would_load_wrong(name: str, uneven: dict[str, Trip]) -> None:
    folder = uneven[name].saved.folder
    kind = getattr(transformers, config(folder)["architectures"][0])
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        kind.from_pretrained(folder)


@pytest.mark.parametrize("name", EVEN)
def test_an_even_cut_is_a_plain_checkpoint_of_transformers(
    name: str, even: dict[str, Trip]
) -> None:
    trip = even[name]
    assert trip.saved.plain
    assert_close(trip.found["answer"], trip.expected["answer"], atol=1e-5, rtol=1e-5)
    written = trip.expected["written"]
    assert torch.equal(trip.found["written"][:, : written.shape[1]], written)


@pytest.mark.parametrize("name", EVEN)
def test_a_plain_checkpoint_still_knows_its_heads_by_their_ids(
    name: str, even: dict[str, Trip]
) -> None:
    trip = even[name]
    again = hw.load(trip.saved.folder, quiet=True)
    before, after = cut_of(trip.model.module), cut_of(again.module)
    assert before is not None
    assert after == Cut(before.kept, {}, {})
    assert_close(
        outputs(again, trip.inputs)["answer"], trip.expected["answer"], atol=1e-6, rtol=1e-6
    )
    assert_close(cut_and_saved_once_more(again, trip), cut_once_more(trip), atol=1e-5, rtol=1e-5)


def cut_once_more(trip: Trip) -> Tensor:
    return outputs(cut_heads(trip.model, left(trip.model)), trip.inputs)["answer"]


def cut_and_saved_once_more(again: hw.Model, trip: Trip) -> Tensor:
    folder = trip.saved.folder.with_name("again")
    hw.save(cut_heads(again, left(trip.model)), folder)
    return outputs(hw.load(folder, quiet=True), trip.inputs)["answer"]


def left(model: hw.Model) -> str:
    """A head of the first layer that is still there."""
    cut = cut_of(model.module)
    assert cut is not None
    return f"0.{next(iter(cut.kept.values())).heads[0]}"
