"""W_Q, W_K and W_V of every family are found by what they give, and give again what the model attended with."""

from __future__ import annotations

import pytest
import torch
from tiny_models import TABLE, build, inputs_of

import headwise as hw
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.projections import Projection
from headwise.hub.weights import LayerWeights, Weights, weights_of
from headwise.names import LayerId
from headwise.nn import EncoderDecoder, TransformerConfig

NORMED = {
    *(
        "qwen3",
        "qwen3-moe",
        "qwen3-next",
        "apertus",
        "exaone4",
        "gemma3",
        "hunyuan",
        "lfm2",
        "doge",
    ),
    *("nanochat", "olmo2", "olmo3", "olmoe", "persimmon", "stablelm", "llama4"),
}
"""Queries and keys go through a norm of each head, or (Doge, Llama 4) of all."""

SPECIAL = {"deepseek-v2", "deepseek-v3", "codegen", "falcon-groups", "paligemma", "roformer"}
"""Keys or queries put together from parts, or positions that do not begin with no turn."""

NONE = {"ibert", "xlnet"}
"""Without linear modules."""


def calls(model: hw.Model, inputs: dict) -> dict[LayerId, tuple[Scores, torch.Tensor]]:
    """What each layer attended with."""
    seen: dict[LayerId, tuple[Scores, torch.Tensor]] = {}

    def observer(id: LayerId):
        def observe(scores: Scores, v: torch.Tensor, z: torch.Tensor) -> None:
            at = id
            while at in seen:
                at = LayerId(at.stream, at.layer + 1)
            seen[at] = scores, v

        return observe

    taps = {x.module: Tap(observers=(observer(x.id),)) for x in model.anatomy.layers}
    with model.open(), tapped(taps):
        model.run(inputs)
    return seen


def again(part: Projection, wanted: torch.Tensor) -> torch.Tensor:
    """x W + b by heads, [batch, head, position, dim]."""
    x = part.given.reshape(wanted.shape[0], wanted.shape[2], -1)
    made = torch.einsum("bpm,hmd->bhpd", x, part.weight)
    return made if part.bias is None else made + part.bias[:, None]


def check(layer: LayerWeights, scores: Scores, v: torch.Tensor) -> None:
    for part, wanted in ((layer.v, v), (layer.k, scores.k), (layer.q, scores.q)):
        if part is None:
            continue
        assert len(part.weight) == wanted.shape[1]
        made = again(part, wanted)
        if part.turned:
            made, wanted = made[:, :, :1], wanted[:, :, :1]
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", TABLE)
def test_the_maps_of_every_family_give_what_it_attends_with(name: str) -> None:
    model, inputs = hw.load(build(name), quiet=True), inputs_of(name)
    found, seen = weights_of(model, inputs), calls(model, inputs)
    assert {layer.id for layer in found.layers} == set(seen)
    for layer in found.layers:
        check(layer, *seen[layer.id])
        if name in NONE:
            assert set(layer.missing) == {"q", "k", "v", "o"}
            continue
        assert layer.v is not None
        if name not in NORMED | SPECIAL:
            assert layer.q is not None, layer.missing
            assert layer.k is not None, layer.missing


@pytest.mark.parametrize("name", sorted(NORMED - {"llama4"}))
def test_with_a_norm_of_each_head_there_is_no_map_of_queries(name: str) -> None:
    found = weights_of(hw.load(build(name), quiet=True), inputs_of(name))
    for layer in found.layers:
        assert layer.q is None
        assert layer.k is None
        assert "a norm of each head" in layer.missing["q"]


def test_rope_is_told_from_learned_positions() -> None:
    for name, turned in (("llama", True), ("gpt2", False), ("gptj", True), ("bert", False)):
        layer = weights_of(hw.load(build(name)), inputs_of(name)).layers[1]
        assert layer.q is not None
        assert layer.q.turned == turned, name


def test_a_bias_by_position_is_told() -> None:
    for name, biased in (("bloom", True), ("t5", True), ("gpt2", False)):
        layers = weights_of(hw.load(build(name)), inputs_of(name)).layers
        assert next(x.biased for x in layers if x.id.stream != "cross") == biased, name


def found_in(name: str) -> Weights:
    return weights_of(hw.load(build(name)), inputs_of(name))


def test_norms_are_found_with_their_gain() -> None:
    llama = build("llama")
    with torch.no_grad():
        for layer in llama.model.layers:
            layer.input_layernorm.weight.uniform_(0.5, 2)
    found = weights_of(hw.load(llama), inputs_of("llama"))
    for one, own in zip(found.layers, llama.model.layers, strict=True):
        assert one.query_norm is not None
        assert not one.query_norm.centred
        torch.testing.assert_close(one.query_norm.gain, own.input_layernorm.weight)
    gemma = found_in("gemma2").layers[0]
    assert gemma.value_norm is not None
    assert gemma.result_norm is not None
    gpt2 = found_in("gpt2")
    assert gpt2.layers[0].key_norm is not None
    assert gpt2.layers[0].key_norm.centred
    assert gpt2.unembedding is not None
    assert gpt2.unembedding.norm is not None
    assert found_in("mobilebert").layers[0].key_norm is None


def test_folding_a_norm_is_the_norm_but_for_each_tokens_length() -> None:
    """x W with the folded W, over the token's own deviation, is the norm's output times W."""
    model = build("gpt2")
    with torch.no_grad():
        model.transformer.h[0].ln_1.weight.uniform_(0.5, 2)
    layer = weights_of(hw.load(model), inputs_of("gpt2")).layers[0]
    norm = layer.value_norm
    assert norm is not None
    assert layer.v is not None
    x, own = torch.randn(7, model.config.n_embd), model.transformer.h[0].ln_1
    with torch.no_grad():
        wanted = (own(x) - own.bias) @ layer.v.weight[0]
        made = (
            x
            @ norm.before(layer.v.weight[0])
            / (x.var(-1, unbiased=False) + own.eps).sqrt()[:, None]
        )
    torch.testing.assert_close(made, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_layers(batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 32, batch_first=batch_first)
    model = hw.load(torch.nn.TransformerEncoder(layer, 2).eval())
    x = torch.randn(2, 4, 24) if batch_first else torch.randn(4, 2, 24)
    for found, own in zip(weights_of(model, {"src": x}).layers, model.module.layers, strict=True):
        assert found.missing == {}
        assert found.k is not None
        wanted = own.self_attn.in_proj_weight[24:48].T.unflatten(1, (3, 8)).transpose(0, 1)
        torch.testing.assert_close(found.k.weight, wanted.detach())


def test_our_own_encoder_decoder() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=50, d_model=24, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=32
    )
    model = hw.load(EncoderDecoder(config).eval())
    ids = {
        "input_ids": torch.randint(50, (3, 6)),
        "decoder_input_ids": torch.randint(50, (3, 4)),
    }
    found, seen = weights_of(model, ids), calls(model, ids)
    assert {layer.id.stream for layer in found.layers} == {"encoder", "decoder", "cross"}
    for layer in found.layers:
        assert layer.missing == {}
        check(layer, *seen[layer.id])
    assert {path for path, _ in found.embeddings.values()} == {
        "encoder.embedding.tokens",
        "decoder.embedding.tokens",
    }
    assert found.unembedding is not None
