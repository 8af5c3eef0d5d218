"""contributions: the stream after a block is the stream before it and what its attention and FFN add."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import transformers

import headwise as hw
from bytes_help import byte_tokenizer
from headwise.hub.adding import added_by
from headwise.hub.stream import BlockRun, blocks_of, watched_blocks
from headwise.names import HeadError

SMALL = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "GPTNeoX": {},
    "Gemma2": {"num_key_value_heads": 2, "head_dim": 8},
    "Granite": {"residual_multiplier": 0.22},
    "Olmo2": {},
    "GPT2": {"n_embd": 32, "n_layer": 3, "n_head": 4},
    "Mixtral": {"num_local_experts": 4, "num_key_value_heads": 2},
}


def family(name: str, **more: Any) -> hw.Model:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL | FAMILIES.get(name, {}) | more)
    module = getattr(transformers, f"{name}Model")(config).eval()
    return hw.load(module, tokenizer=byte_tokenizer())


def runs_of(model: hw.Model, inputs: dict[str, Any]) -> list[BlockRun]:
    runs: list[BlockRun] = []
    with watched_blocks(model, blocks_of(model, inputs), runs.append, parts=True):
        model.run(inputs)
    return runs


def check_sums(model: hw.Model, inputs: dict[str, Any]) -> None:
    runs = runs_of(model, inputs)
    for run in runs:
        added = added_by(run)
        assert not added.normed
        total = added.before + sum(added.parts)
        assert float((total - added.after).norm() / added.after.norm()) < 1e-4
    for one, other in pairwise(runs):
        if one.id.stream == other.id.stream:
            torch.testing.assert_close(one.after, other.before)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_block_adds_its_attention_and_its_network(name: str) -> None:
    model = family(name)
    inputs = {"input_ids": torch.arange(20, 31)[None]}
    check_sums(model, inputs)
    if name in ("Llama", "GPTNeoX"):
        (run, *_) = runs_of(model, inputs)
        attention, ffn = added_by(run).parts
        outer = run.block.module
        found = {}
        part = outer.self_attn if name == "Llama" else outer.attention
        hooks = [
            part.register_forward_hook(lambda m, given, out: found.update(attention=out[0])),
            outer.mlp.register_forward_hook(lambda m, given, out: found.update(ffn=out)),
        ]
        model.run(inputs)
        for hook in hooks:
            hook.remove()
        torch.testing.assert_close(attention, found["attention"][0])
        torch.testing.assert_close(ffn, found["ffn"][0])


def test_a_norm_in_the_stream_is_told_and_what_is_added_is_before_it() -> None:
    model = family("Bert")
    runs = runs_of(model, {"input_ids": torch.arange(20, 31)[None]})
    for run in runs:
        added = added_by(run)
        block = run.block.module
        middle = block.attention.output.LayerNorm(added.before + added.parts[0])
        after = block.output.LayerNorm(middle + added.parts[1])
        assert added.normed
        torch.testing.assert_close(after, added.after, atol=1e-4, rtol=1e-4)
    assert "before the norm" in hw.contributions(model, "a text").says


def test_lengths_are_those_of_the_vectors() -> None:
    model = family("Llama")
    table = hw.contributions(model, "hello")
    ids = torch.tensor([model.tokenizer.encode("hello").ids])
    for at, run in enumerate(runs_of(model, {"input_ids": ids})):
        attention, ffn = added_by(run).parts
        after = run.after[0]
        for name, part in (("attention", attention), ("ffn", ffn)):
            along = (part * after).sum(-1) / after.norm(dim=-1)
            torch.testing.assert_close(
                torch.tensor(table[name].values[at]).float(), part.norm(dim=-1)
            )
            torch.testing.assert_close(
                torch.tensor(table[f"{name}_along"].values[at]).float(), along, atol=1e-5, rtol=1e-4
            )
        torch.testing.assert_close(
            torch.tensor(table.stream.values[at]).float(), after.norm(dim=-1)
        )


def test_an_encoder_decoder_has_three_parts() -> None:
    config = hw.nn.TransformerConfig(vocab_size=256, num_layers=2, num_heads=2, d_model=16, d_ff=32)
    model = hw.load(hw.nn.EncoderDecoder(config), tokenizer=byte_tokenizer())
    check_sums(
        model, {"input_ids": torch.arange(9)[None], "decoder_input_ids": torch.arange(5)[None]}
    )
    table = hw.contributions(model, "read", target="write it", stream="decoder")
    assert list(table.layer.values) == ["decoder.0", "decoder.1"]
    assert table.cross.shape == (2, len("write it"))
    assert "cross" not in hw.contributions(model, "read", target="write it")
    with pytest.raises(HeadError, match="no stream 'x'"):
        hw.contributions(model, "read", target="write it", stream="x")


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "whisper-tiny-en"])
def test_real_models_add_up(name: str) -> None:
    model = hw.load(name, quiet=True)
    inputs = {"input_ids": torch.arange(1000, 1012)[None]}
    if name.startswith("whisper"):
        ids = torch.tensor([[50257, 50362, 400, 370]])
        inputs = {"input_features": torch.randn(1, 80, 3000), "decoder_input_ids": ids}
    check_sums(model, inputs)
