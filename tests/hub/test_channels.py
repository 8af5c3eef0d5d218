"""Channels: which rows and columns are which head's, told by what changes with them."""

from __future__ import annotations

import pytest
import torch
from tiny_models import build, inputs_of

import headwise as hw
from headwise.hub.channels import Channels, channels_of
from headwise.names import ModelError
from headwise.nn import Decoder, TransformerConfig


def first(model: hw.Model, inputs) -> Channels:
    """Of the first layer."""
    layer = model.anatomy.layers[0]
    return channels_of(model, [layer], inputs)[layer.path]


def rows(parts, leaf: str, head: int) -> list[list[int]]:
    return [part.places[head].tolist() for part in parts if part.name.endswith(leaf)]


def test_maps_of_their_own_are_read_head_by_head() -> None:
    found = first(hw.load(build("llama"), quiet=True), inputs_of("llama"))
    assert (found.num_heads, found.num_kv_heads, found.head_dim) == (6, 2, 4)
    assert rows(found.query, "q_proj.weight", 4) == [[16, 17, 18, 19]]
    assert rows(found.kv, "k_proj.weight", 1) == [[4, 5, 6, 7]]
    assert rows(found.kv, "v_proj.weight", 0) == [[0, 1, 2, 3]]
    assert found.output.name.endswith("o_proj.weight")
    assert found.output.axis == 1
    assert {part.axis for part in (*found.query, *found.kv)} == {0}


def test_packed_maps_are_told_apart() -> None:
    phi = first(hw.load(build("phi3"), quiet=True), inputs_of("phi3"))
    assert rows(phi.query, "qkv_proj.weight", 5) == [[20, 21, 22, 23]]
    assert rows(phi.kv, "qkv_proj.weight", 0) == [[24, 25, 26, 27], [32, 33, 34, 35]]
    neox = first(hw.load(build("gpt-neox"), quiet=True), inputs_of("gpt-neox"))
    assert rows(neox.query, "query_key_value.weight", 1) == [[12, 13, 14, 15]]
    assert rows(neox.kv, "query_key_value.bias", 1) == [[16, 17, 18, 19], [20, 21, 22, 23]]
    gpt2 = first(hw.load(build("gpt2"), quiet=True), inputs_of("gpt2"))
    assert {part.axis for part in gpt2.query if part.name.endswith("weight")} == {1}
    assert gpt2.output.axis == 0


def test_our_packed_projection_has_queries_keys_and_values() -> None:
    config = TransformerConfig(vocab_size=9, d_model=12, num_layers=1, num_heads=6, num_kv_heads=2)
    found = first(hw.load(Decoder(config).eval(), quiet=True), {"input_ids": torch.arange(5)[None]})
    assert rows(found.query, "w_qkv.weight", 5) == [[10, 11]]
    assert rows(found.kv, "w_qkv.weight", 1) == [[14, 15], [18, 19]]
    assert rows(found.kv, "w_qkv.bias", 0) == [[12, 13], [16, 17]]


def test_a_norm_of_each_head_is_no_heads_own_and_sinks_are() -> None:
    qwen = first(hw.load(build("qwen3"), quiet=True), inputs_of("qwen3"))
    assert not rows(qwen.query, "q_norm.weight", 0)
    sinks = first(hw.load(build("gpt-oss"), quiet=True), inputs_of("gpt-oss"))
    assert rows(sinks.query, "sinks", 3) == [[3]]
    one = first(hw.load(build("qwen3", num_key_value_heads=1), quiet=True), inputs_of("qwen3"))
    assert not rows(one.kv, "k_norm.weight", 0)


def test_latents_that_all_heads_share_are_nobodys() -> None:
    found = first(hw.load(build("deepseek-v3"), quiet=True), inputs_of("deepseek-v3"))
    assert [part.name.rpartition("self_attn.")[2] for part in found.query] == ["q_b_proj.weight"]
    assert {part.name.rpartition("self_attn.")[2] for part in found.kv} == {"kv_b_proj.weight"}
    assert found.v_dim == 5


@pytest.mark.parametrize("heads", [2, 4, 6])
def test_a_norm_over_all_heads_is_refused_by_its_name(heads: int) -> None:
    sizes = {"num_attention_heads": heads, "num_key_value_heads": 2, "head_dim": 4}
    model = hw.load(build("olmo2", **sizes), quiet=True)
    with pytest.raises(ModelError, match=r"depends on all heads through .*q_norm"):
        first(model, inputs_of("olmo2"))


def test_what_is_given_a_bias_of_all_heads_says_so() -> None:
    t5 = hw.load(build("t5"), quiet=True)
    found = channels_of(t5, list(t5.anatomy.layers), inputs_of("t5"))
    assert all(channels.selects and channels.returns_bias for channels in found.values())
    bert = first(hw.load(build("bert"), quiet=True), inputs_of("bert"))
    assert not bert.selects
    assert bert.output.name.endswith("attention.output.dense.weight")


def test_looking_leaves_modes_and_gradients_as_they_were() -> None:
    module = build("llama").train()
    module.model.embed_tokens.weight.requires_grad_(False)
    before = {name: p.requires_grad for name, p in module.named_parameters()}
    first(hw.load(module, quiet=True), inputs_of("llama"))
    assert {name: p.requires_grad for name, p in module.named_parameters()} == before
    assert all(part.training for part in module.modules())
    assert all(p.grad is None for p in module.parameters())
