"""Folders of Qwen2, Qwen3 and Mistral run in our own blocks: looked into, ablated, pruned and saved again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as tf
from torch.testing import assert_close

import headwise as hw
from headwise.nn import Decoder

SMALL = {"vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
SMALL |= {"num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 32}
SMALL |= {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 1}
WINDOW = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}
ROPE = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}}

FOLDERS = {
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**SMALL)),
    "qwen2 window": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**SMALL, **WINDOW)),
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**SMALL, head_dim=8)),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**SMALL, sliding_window=3)),
    "llama scaled": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, **ROPE)),
}


@pytest.fixture(params=FOLDERS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[hw.Model, hw.Model, Path]:
    """The model in our blocks, the same in transformers, and its folder."""
    torch.manual_seed(3)
    module = FOLDERS[request.param]().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.3)
    module.save_pretrained(tmp_path / "model")
    return hw.load(tmp_path / "model", quiet=True), hw.load(module), tmp_path / "model"


def test_patterns_are_those_in_transformers(pair: tuple[hw.Model, hw.Model, Path]) -> None:
    ours, theirs, _ = pair
    assert isinstance(ours.module, Decoder)
    assert not ours.foreign
    inputs = {"input_ids": torch.randint(0, 31, (1, 9))}
    (mine,), (other,) = hw.look(ours, inputs), hw.look(theirs, inputs)
    assert mine.verified < 1e-5
    for layer in range(2):
        for head in range(6):
            name = f"{layer}.{head}"
            a, b = (torch.tensor(record.pattern(name).values) for record in (mine, other))
            assert_close(a, b, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_head_at_zero_is_a_head_that_is_cut(pair: tuple[hw.Model, hw.Model, Path]) -> None:
    ours, theirs, folder = pair
    ids = torch.randint(0, 31, (2, 9))
    whole = ours.module(ids)
    with hw.ablate(ours, "1.4"):
        expected = ours.module(ids)
    with hw.ablate(theirs, "1.4"):
        assert_close(theirs.module(ids).logits, expected, atol=1e-4, rtol=1e-4)
    assert (expected - whole).abs().max() > 1e-3
    smaller = hw.prune(ours, "1.4", quiet=True)
    assert_close(smaller.module(ids), expected, atol=1e-5, rtol=1e-5)
    saved = hw.save(smaller, folder.parent / "smaller")
    again = hw.load(saved.folder, quiet=True)
    assert torch.equal(again.module(ids), smaller.module(ids))
    assert hw.save(ours, folder.parent / "whole").plain


@torch.no_grad()
def test_a_model_of_our_own_that_fits_a_family_is_cut_and_saved_as_one(tmp_path: Path) -> None:
    torch.manual_seed(3)
    made = {"class": "Decoder", "vocab_size": 31, "d_model": 24, "num_layers": 2, "num_heads": 6}
    made |= {"norm": "rms", "activation": "swiglu", "qk_norm": True}
    made |= {"attention_bias": False, "attention_out_bias": False, "ffn_bias": False}
    model = hw.load(hw.nn.build(made).eval(), quiet=True)
    ids = torch.randint(0, 31, (2, 9))
    whole = hw.save(model, tmp_path / "whole")
    assert whole.plain
    theirs = tf.AutoModelForCausalLM.from_pretrained(whole.folder)
    assert_close(theirs(ids).logits, model.module(ids), atol=1e-5, rtol=1e-5)
    smaller = hw.prune(model, "*.0", quiet=True)
    saved = hw.save(smaller, tmp_path / "smaller")
    assert saved.plain
    theirs = tf.AutoModelForCausalLM.from_pretrained(saved.folder)
    assert_close(theirs(ids).logits, smaller.module(ids), atol=1e-5, rtol=1e-5)
    assert torch.equal(hw.load(saved.folder, quiet=True).module(ids), smaller.module(ids))
