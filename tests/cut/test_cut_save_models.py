"""Real models, cut and saved: the same answers when they come back, and in transformers where they are plain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from save_families import outputs
from torch import Tensor
from torch.testing import assert_close

import headwise as hw
from headwise.cut.example import example
from headwise.cut.pruning.record import cut_of
from headwise.cut.pruning.surgery import cut_heads

pytestmark = pytest.mark.models

UNEVEN = {
    "smollm2": "0.1, 3.*, 18.0-2, *.8",
    "minilm": "0.0-4, 2.7, 5.*",
    "whisper-tiny-en": "encoder.0.1, decoder.*.0, cross.2.3-5",
    "rxnmapper": "*.0, *.5",
}


none = torch.empty(0)


def given(model: hw.Model) -> dict[str, Any]:
    return {k: v.contiguous() for k, v in example(model).items() if isinstance(v, Tensor)}


@pytest.mark.parametrize("name", UNEVEN)
def test_a_real_model_that_was_cut_comes_back(name: str, tmp_path: Path) -> None:
    model = hw.load(name, quiet=True)
    cut = cut_heads(model, UNEVEN[name])
    saved = hw.save(cut, tmp_path / name)
    assert not saved.plain
    again = hw.load(saved.folder, quiet=True)
    assert again.foreign is model.foreign
    assert cut_of(again.module) == cut_of(cut.module)
    expected, found = (outputs(m, given(cut)) for m in (cut, again))
    assert expected.keys() == found.keys()
    assert_close(found["answer"], expected["answer"], atol=1e-5, rtol=1e-5)
    assert torch.equal(found.get("written", none), expected.get("written", none))
    if model.tokenizer is not None:
        assert again.tokenizer.encode("a cat").ids == model.tokenizer.encode("a cat").ids


def test_an_even_cut_of_smollm2_runs_in_transformers_alone(tmp_path: Path) -> None:
    """One query head of each group of every layer, another in each: 6 of 9 are left."""
    heads = ", ".join(f"{n}.{n % 3}, {n}.{3 + n % 2}, {n}.{6 + (n + 1) % 3}" for n in range(30))
    cut = cut_heads(hw.load("smollm2", quiet=True), heads)
    (tmp_path / "smollm2").mkdir()
    ids = cut.tokenizer.encode("The cat sat on the mat, and the dog").ids
    inputs = {"input_ids": torch.tensor([ids])}
    save_file(inputs, tmp_path / "smollm2" / "inputs.safetensors")
    saved = hw.save(cut, tmp_path / "smollm2" / "model")
    assert saved.plain
    script = Path(__file__).with_name("save_reloading.py")
    run = subprocess.run(
        [sys.executable, str(script), "transformers", str(tmp_path / "smollm2")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not run.returncode, run.stderr[-3000:]
    found, expected = load_file(tmp_path / "smollm2" / "found.safetensors"), outputs(cut, inputs)
    assert_close(found["answer"], expected["answer"], atol=2e-4, rtol=1e-4)
    assert torch.equal(found["written"], expected["written"])
