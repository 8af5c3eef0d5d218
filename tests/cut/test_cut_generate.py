"""Text that models write, whole and cut, greedily and with a cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.names import ModelError, TextError
from headwise.nn import Decoder, TransformerConfig

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

IDS = torch.arange(1, 13).view(2, 6)


def own() -> hw.Model:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=50, d_model=24, num_layers=3, num_heads=6, num_kv_heads=3, d_ff=32, max_length=20
    )
    module = Decoder(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
    return hw.load(module)


@pytest.mark.parametrize("heads", ["0.1 1.0 1.1 1.4", "0.*"])
def test_a_pruned_decoder_writes_what_the_ablated_one_does(heads: str, tmp_path: Path) -> None:
    model = own()
    pruned = hw.prune(model, heads)
    hw.save(pruned, tmp_path / "small")
    with hw.ablate(model, heads):
        wanted = hw.generate(model, IDS, 8)
    assert isinstance(wanted, torch.Tensor)
    assert not torch.equal(wanted, hw.generate(model, IDS, 8))
    assert torch.equal(hw.generate(pruned, IDS, 8), wanted)
    assert torch.equal(hw.generate(hw.load(tmp_path / "small"), IDS, 8), wanted)
    with torch.no_grad():
        again = pruned.module(wanted)[:, 5:-1].argmax(-1)  # without a cache
    assert torch.equal(again, wanted[:, 6:])


def test_models_of_transformers_write_by_themselves() -> None:
    model = hw.load(build("llama"))
    wanted = model.module.generate(
        input_ids=IDS, attention_mask=torch.ones_like(IDS), max_new_tokens=5, do_sample=False
    )
    assert torch.equal(hw.generate(model, IDS, 5), wanted)


def test_what_cannot_be_written() -> None:
    with pytest.raises(ModelError, match="no causal language model"):
        hw.generate(hw.load(build("bert")), IDS)
    with pytest.raises(ModelError, match="has no tokenizer; give rows of ids"):
        hw.generate(own(), "text")
    with pytest.raises(TextError, match="nothing fits after it"):
        hw.generate(own(), torch.ones(1, 20, dtype=torch.long))
    made = hw.generate(own(), IDS, 100)
    assert made.shape == (2, 20)  # type: ignore[union-attr]


@pytest.mark.models
def test_smollm2_knows_the_capital_of_france_and_ends() -> None:
    model = hw.load("smollm2", quiet=True)
    told = hw.generate(model, "The capital of France is", 1)
    assert told == " Paris"
    ended = hw.generate(model, "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n", 64)
    assert isinstance(ended, str)
    assert 0 < len(ended) < 250
