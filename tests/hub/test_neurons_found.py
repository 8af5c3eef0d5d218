"""The feed-forward networks of every family are found by what they do, and only they."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_help
from tiny_models import TABLE, build, ids_of, inputs_of, padded

import headwise as hw
from headwise.hub.networks import FeedForwards
from headwise.hub.neurons import feed_forwards, watched
from headwise.names import HeadError, LayerId, ModelError, NeuronId
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig

EXPERTS = {"gpt-oss", "granite-moe", "minimax", "mixtral", "olmoe", "phimoe", "qwen3-moe"}
"""Families all of whose networks are mixtures of experts."""

SHARED = {"deepseek-v2", "deepseek-v3", "glm4-moe", "qwen2-moe", "qwen3-next", "llama4", "switch"}
"""Families with experts beside networks that read every token."""

SIZES = ("ffn_dim", "encoder_ffn_dim", "d_ff", "d_inner", "hidden_dim", "dff", "intermediate_size")

OTHER: dict[str, list[int]] = {
    "falcon": [96, 96],  # 4 x hidden_size, whatever intermediate_size says
    "falcon-groups": [96, 96],
    "gpt-neox-japanese": [96, 96],
    "moshi": [11264, 11264],
    "lfm2": [256, 256],
    "xmod": [32, 12, 32, 12],  # an adapter is one, too
    "llava": [32, 32, 24, 32, 32],  # the projector: here it leads back to as many channels
    "siglip": [32, 32, 32, 32, 32],  # the third is of the pooling head
    "qwen2-vl": [96, 96, 32, 32],
    "dinov2": [96, 96],
    "dinov2-registers": [96, 96],
    "deepseek-v2": [32, 16],
    "deepseek-v3": [32, 16],
    "glm4-moe": [32, 16],
    "qwen2-moe": [16, 16],
    "qwen3-next": [16, 16],
    "switch": [32, 32],
}


def wanted(name: str, model: Any) -> list[int]:
    """The sizes that the config says, layer by layer."""
    if name in OTHER:
        return OTHER[name]
    config = model.config
    towers = [c for c in (getattr(config, k, None) for k in ("vision_config", "text_config")) if c]
    if towers:
        return [size for tower in towers for size in _of_one(tower)]
    return _of_one(config)


def _of_one(config: Any) -> list[int]:
    width = next((w for k in SIZES if isinstance(w := getattr(config, k, None), int)), None)
    for name in ("hidden_size", "n_embd", "d_model", "emb_dim"):
        width = width or 4 * getattr(config, name, 0)
    layers = getattr(config, "num_hidden_layers", 2)
    stacks = 2 if getattr(config, "is_encoder_decoder", False) else 1
    return [width] * layers * stacks


def search(name: str) -> tuple[hw.Model, dict[str, torch.Tensor], FeedForwards]:
    model, inputs = hw.load(build(name)), inputs_of(name)
    return model, inputs, feed_forwards(model, inputs)


@pytest.mark.parametrize("name", [n for n in TABLE if n not in EXPERTS | {"ibert", "nllb-moe"}])
def test_every_network_is_found_and_its_neurons_make_what_it_gives(name: str) -> None:
    model, inputs, found = search(name)
    assert sorted(n.size for n in found.networks) == sorted(wanted(name, model.module))
    assert bool(found.left_out) == (name in SHARED)
    assert len({network.id for network in found.networks}) == len(found.networks)
    streams = {layer.id.stream for layer in model.anatomy.layers} - {"cross"}
    extra = {"llava": {"multi_modal_projector"}}.get(name, set())
    assert {network.id.stream for network in found.networks} == streams | extra
    seen = []

    def see(network: Any, activations: torch.Tensor, out: torch.Tensor) -> None:
        made = activations @ network.weight + (0 if network.bias is None else network.bias)
        torch.testing.assert_close(made, out, atol=1e-4, rtol=1e-4)
        assert activations.shape[0] == out.shape[0] == 1
        seen.append(network.id)

    with watched(model, found, 1, see):
        model.run(inputs)
    assert seen == [network.id for network in found.networks]


GATED = {"llama": True, "gemma2": True, "phi3": True, "glm4": True, "modernbert": True}
GATED |= {"gpt2": False, "bert": False, "bloom": False, "nemotron": False, "t5": False}


@pytest.mark.parametrize("name", GATED)
def test_a_gate_is_told_from_an_activation(name: str) -> None:
    assert {network.gated for network in search(name)[2].networks} == {GATED[name]}


@pytest.mark.parametrize("name", [*sorted(EXPERTS), "ibert"])
def test_what_cannot_be_read_is_refused_by_name(name: str) -> None:
    with pytest.raises(ModelError, match="has no neurons that can be looked at") as caught:
        search(name)
    assert "\n" not in str(caught.value)
    assert ("mixtures of experts (" in str(caught.value)) == (name != "ibert")


def test_experts_that_are_modules_of_their_own_are_told_by_the_tokens_they_read() -> None:
    found = search("switch")[2]
    assert "SwitchTransformersSparseMLP" in found.left_out
    assert not any("expert" in network.path for network in found.networks)


def test_experts_of_which_some_never_ran_are_told_too() -> None:
    module = build("nllb-moe", num_experts=8)
    inputs = {"input_ids": ids_of(3)[0][None], "decoder_input_ids": ids_of(3, seed=2)[0][None]}
    found = feed_forwards(hw.load(module), inputs)
    assert not any("expert" in network.path for network in found.networks)
    assert "NllbMoeSparseMLP" in found.left_out


def test_an_output_map_is_no_network_even_with_a_gate_before_it() -> None:
    """A gate on head outputs is a product with an activation of a linear map, and still mixes positions."""
    module = build("llama")

    class Gated(torch.nn.Module):
        def __init__(self, o_proj: torch.nn.Linear) -> None:
            super().__init__()
            self.o_proj, self.gate = o_proj, torch.nn.Linear(24, 24)

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return self.o_proj(z * torch.sigmoid(self.gate(z)))

    for layer in module.model.layers:
        layer.self_attn.o_proj = Gated(layer.self_attn.o_proj)
    found = feed_forwards(hw.load(module), inputs_of("llama"))
    assert [n.path for n in found.networks] == [f"model.layers.{i}.mlp.down_proj" for i in (0, 1)]


def test_a_sum_of_maps_is_a_residual_stream_and_no_activation() -> None:
    """x + act(y) of two linear maps, read by a third, is what a projection of embeddings makes of a stream."""

    class Summed(torch.nn.Module):
        def __init__(self, ffn: torch.nn.Module) -> None:
            super().__init__()
            self.ffn, self.one, self.two, self.three = (
                ffn,
                *(torch.nn.Linear(24, 24) for _ in "abc"),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.ffn(x) + self.three(self.one(x) + self.two(x).relu())

    module = build("gpt2")
    for block in module.transformer.h:
        block.mlp = Summed(block.mlp)
    found = feed_forwards(hw.load(module), inputs_of("gpt2"))
    assert [n.path for n in found.networks] == [f"transformer.h.{i}.mlp.ffn.c_proj" for i in (0, 1)]


def test_a_classifier_on_a_pooled_vector_is_no_network() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_labels=24,
        num_attention_heads=4,
    )  # fmt: skip
    model = hw.load(BertForSequenceClassification(config).eval())
    found = feed_forwards(model, {"input_ids": ids_of(9)[0][None]})
    assert [network.path for network in found.networks] == [
        f"bert.encoder.layer.{i}.output.dense" for i in (0, 1)
    ]


SMALL = TransformerConfig(
    vocab_size=40, d_model=24, num_layers=2, num_decoder_layers=3, num_heads=4, d_ff=32
)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"])
@pytest.mark.parametrize("cls", [Encoder, Decoder, EncoderDecoder])
def test_our_own_blocks(cls: type, activation: Any) -> None:
    from dataclasses import replace

    model = hw.load(cls(replace(SMALL, activation=activation)))
    inputs = {"input_ids": ids_of(7)[0][None]}
    if cls is EncoderDecoder:
        inputs["decoder_input_ids"] = ids_of(5)[0][None]
    found = feed_forwards(model, inputs)
    layers = ["0", "1"]
    if cls is EncoderDecoder:
        layers = ["encoder.0", "encoder.1", "decoder.0", "decoder.1", "decoder.2"]
    assert [str(network.id) for network in found.networks] == layers
    assert {(n.size, n.gated) for n in found.networks} == {(32, activation in ("swiglu", "geglu"))}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("hidden", [False, True])
def test_torchs_stacks_in_their_fused_form_too(batch_first: bool, hidden: bool) -> None:
    model = hw.load(torch_help.encoder(batch_first=batch_first))
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    inputs = {"src": x if batch_first else x.transpose(0, 1)}
    if hidden:
        inputs["src_key_padding_mask"] = torch_help.hidden(5, 3, 4)
    found = feed_forwards(model, inputs)
    assert [(str(n.id), n.size) for n in found.networks] == [("0", 16), ("1", 16)]
    first = model.module.layers[0]
    seen = {}
    with watched(model, found, 3, lambda n, a, out: seen.update({n.id: a})):
        model.run(inputs)
    with torch.no_grad():
        padding = inputs.get("src_key_padding_mask")
        y, _ = first.self_attn(*[inputs["src"]] * 3, key_padding_mask=padding)
        mine = first.linear1(first.norm1(inputs["src"] + y)).relu()
    mine = mine if batch_first else mine.transpose(0, 1)
    real = torch.ones(3, 5, dtype=torch.bool) if padding is None else ~padding
    torch.testing.assert_close(seen[LayerId("", 0)][real], mine[real], atol=1e-5, rtol=1e-4)


def test_torchs_encoder_and_decoder_are_named_like_their_heads() -> None:
    model = hw.load(torch_help.sharp(torch.nn.Transformer(8, 2, 1, 2, 16, batch_first=True)))
    found = feed_forwards(model, {"src": torch.randn(1, 5, 8), "tgt": torch.randn(1, 4, 8)})
    assert [str(n.id) for n in found.networks] == ["encoder.0", "decoder.0", "decoder.1"]


@pytest.mark.parametrize("name", ["llama", "bert", "opt", "albert"])
def test_a_batch_gives_what_each_text_gives_alone(name: str) -> None:
    model = hw.load(build(name))
    rows = ids_of(9, 4, 6)
    found = feed_forwards(model, {"input_ids": rows[0][None]})

    def run(inputs: dict[str, torch.Tensor], size: int) -> dict[LayerId, torch.Tensor]:
        seen = {}
        with watched(model, found, size, lambda n, a, out: seen.update({n.id: a.clone()})):
            model.run(inputs)
        return seen

    together = run(padded(rows, "right"), 3)
    for i, row in enumerate(rows):
        for id, alone in run({"input_ids": row[None]}, 1).items():
            torch.testing.assert_close(together[id][i, : len(row)], alone[0], atol=1e-4, rtol=1e-4)


def test_ids_are_read_and_written() -> None:
    assert str(NeuronId.parse("12.345")) == "12.345"
    assert NeuronId.parse(" decoder.0.2 ") == LayerId("decoder", 0).neuron(2)
    with pytest.raises(HeadError, match=r"'12' is not a neuron's id; write layer\.neuron"):
        NeuronId.parse("12")


def test_a_neuron_that_is_not_there_is_told_with_the_range() -> None:
    found = search("llama")[2]
    with pytest.raises(HeadError, match=r"no neuron 1\.32: layer 1 has the neurons 1\.0 to 1\.31"):
        found.network_of(NeuronId.parse("1.32"))
    with pytest.raises(HeadError, match=r"no neuron 2\.0: .* layers 0 to 1 \(of 32 neurons\)"):
        found.network_of(NeuronId.parse("2.0"))


def test_looking_leaves_no_hook_behind() -> None:
    model, inputs, found = search("gpt2")
    with watched(model, found, 1, lambda *call: None):
        model.run(inputs)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.module.modules())
