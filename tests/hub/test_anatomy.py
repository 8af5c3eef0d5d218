"""Which modules are attention layers, and what their heads are called."""

from __future__ import annotations

import pytest
import torch
import transformers
from tiny_models import TABLE, build, eager_weights, ids_of, seeded
from torch import nn

import headwise as hw
from headwise.hub.anatomy import anatomy_of
from headwise.names import ModelError, TextError
from headwise.nn import EncoderDecoder, TransformerConfig

_TOWER = {
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def ids(module: nn.Module) -> list[str]:
    return [str(layer.id) for layer in anatomy_of(module).layers]


class Pair(nn.Module):
    """A user's own module with two attentions of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 12)
        self.near = hw.nn.MultiHeadAttention(12, 3)
        self.far = hw.nn.MultiHeadAttention(12, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        return self.far(self.near(x, hw.masks.causal()))


def clip(patches: int = 4) -> nn.Module:
    config = transformers.CLIPConfig(
        text_config={**_TOWER, "vocab_size": 40, "max_position_embeddings": 16, "eos_token_id": 2},
        vision_config={**_TOWER, "image_size": 4 * patches, "patch_size": 4},
        projection_dim=8,
    )
    return seeded(transformers.CLIPModel, config)


def test_two_towers_have_a_stream_each() -> None:
    model = clip()
    assert ids(model) == ["text_model.0", "text_model.1", "vision_model.0", "vision_model.1"]
    inputs = {
        "input_ids": torch.cat([ids_of(4)[0], torch.tensor([2])])[None],
        "pixel_values": torch.randn(1, 3, 16, 16),
    }
    (record,) = hw.look(hw.load(model), inputs)
    assert record.verified < 1e-5
    text, image = record.layers.values().__iter__(), list(record.layers.values())[2]
    assert [t.id for t in next(text).keys.tokens] == inputs["input_ids"][0].tolist()
    assert [t.text for t in image.keys.tokens] == [str(i) for i in range(17)]


def test_an_image_of_as_many_patches_as_tokens_is_not_shown_as_the_text() -> None:
    inputs = {
        "input_ids": torch.cat([ids_of(4)[0], torch.tensor([2])])[None],
        "pixel_values": torch.randn(1, 3, 8, 8),
    }
    (record,) = hw.look(hw.load(clip(patches=2)), inputs)
    image = record.layer_of(hw.HeadId("vision_model", 0, 0))
    assert [t.text for t in image.keys.tokens] == ["0", "1", "2", "3", "4"]


def test_cross_attention_added_to_gpt2() -> None:
    config = transformers.GPT2Config(**TABLE["gpt2"].fields, add_cross_attention=True)
    model = seeded(transformers.GPT2LMHeadModel, config)
    assert ids(model) == ["decoder.0", "cross.0", "decoder.1", "cross.1"]
    memory = torch.randn(1, 6, 24)
    inputs = {"input_ids": ids_of(6)[0][None], "encoder_hidden_states": memory}
    (record,) = hw.look(hw.load(model), inputs)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    mine = torch.tensor(record.weights("cross.1.3"))
    torch.testing.assert_close(mine, out.cross_attentions[1][0, 3].double(), atol=1e-5, rtol=0)
    cross = record.layer_of(hw.HeadId("cross", 0, 0))
    assert [t.id for t in cross.queries.tokens] == inputs["input_ids"][0].tolist()
    assert [t.text for t in cross.keys.tokens] == ["0", "1", "2", "3", "4", "5"]  # not the text's


def test_our_own_encoder_decoder() -> None:
    config = TransformerConfig(vocab_size=30, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    torch.manual_seed(0)
    model = hw.load(EncoderDecoder(config))
    assert model.anatomy.streams == ("encoder", "decoder", "cross")
    source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 3]])
    (record,) = hw.look(model, {"input_ids": source, "decoder_input_ids": target})
    assert record.verified < 1e-5
    assert record.weights("cross.1.2").shape == (3, 4)
    assert record.weights("decoder.0.0")[0].tolist() == [1, 0, 0]
    assert [t.id for t in record.tokens] == source[0].tolist()


def test_our_own_encoder_decoder_needs_a_target() -> None:
    config = TransformerConfig(vocab_size=30, d_model=24, num_layers=1, num_heads=4, d_ff=32)
    with pytest.raises(ModelError, match=r"its decoder starts from.*; or give a target"):
        hw.look(hw.load(EncoderDecoder(config)), {"input_ids": torch.tensor([[5, 6]])})


def test_a_module_of_ones_own() -> None:
    torch.manual_seed(0)
    model = hw.load(Pair())
    assert ids(model.module) == ["near.0", "far.0"]
    (record,) = hw.look(model, {"input_ids": torch.tensor([[1, 2, 3, 4]])})
    assert list(map(str, record.heads())) == [
        *(f"near.0.{h}" for h in range(3)),
        *(f"far.0.{h}" for h in range(2)),
    ]
    assert record.weights("near.0.1")[0].tolist() == [1, 0, 0, 0]
    assert (record.weights("far.0.1") > 0).all()
    assert record.verified < 1e-5


def test_a_module_of_ones_own_that_cannot_hide_padding_says_so() -> None:
    batch = {
        "input_ids": torch.tensor([[1, 2, 3], [1, 2, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
    }
    with pytest.raises(ModelError, match=r"Pair\.forward takes no key_padding_mask"):
        hw.look(hw.load(Pair()), batch)


def test_a_module_of_ones_own_around_a_transformers_model() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = build("bert")

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.backbone(input_ids, attention_mask=attention_mask)[0]

    batch = {
        "input_ids": torch.tensor([[0, 0, 7, 8, 9]]),
        "attention_mask": torch.tensor([[0, 0, 1, 1, 1]]),
    }
    (record,) = hw.look(hw.load(Classifier()), batch)
    (alone,) = eager_weights(build("bert"), {"input_ids": torch.tensor([[7, 8, 9]])}).values()
    for layer in range(2):
        mine = torch.tensor(record.weights(hw.HeadId("", layer, 1)))
        torch.testing.assert_close(mine, alone[layer][0, 1].double(), atol=1e-5, rtol=0)


def test_named_self_and_cross_without_numbers() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn = hw.nn.MultiHeadAttention(12, 3)
            self.cross_attn = hw.nn.MultiHeadAttention(12, 3)

    assert ids(Layer()) == ["decoder.0", "cross.0"]


def test_layers_that_share_a_number_are_counted() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = hw.nn.MultiHeadAttention(8, 2), hw.nn.MultiHeadAttention(8, 2)

    class Gaps(nn.Module):
        """Attention in every second layer, as hybrids have it."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                hw.nn.MultiHeadAttention(8, 2) if i % 2 else nn.Linear(8, 8) for i in range(4)
            )

    assert ids(nn.Sequential(Block(), Block())) == ["0", "1", "2", "3"]
    assert ids(Gaps()) == ["1", "3"]


@pytest.mark.parametrize("fields", [{"num_hidden_groups": 2}, {"inner_group_num": 2}])
def test_shared_layers_are_all_recorded(fields: dict[str, int]) -> None:
    """ALBERT runs one module several times; every run is a layer of its own."""
    inputs = {"input_ids": ids_of(6)[0][None]}
    model = build("albert", num_hidden_layers=4, **fields)
    (record,) = hw.look(hw.load(model), inputs)
    runs = 4 * fields.get("inner_group_num", 1)
    assert [id.layer for id in record.layers] == list(range(runs))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = [w for w in model(**inputs, output_attentions=True).attentions if w is not None]
    weights = [w for group in eager for w in (group if isinstance(group, tuple) else (group,))]
    assert len(weights) == runs
    for layer, own in enumerate(weights):
        mine = torch.tensor(record.weights(hw.HeadId("", layer, 2)))
        torch.testing.assert_close(mine, own[0, 2].double(), atol=1e-5, rtol=0)


def test_a_module_without_attention_is_refused() -> None:
    with pytest.raises(ModelError, match="Linear cannot be looked into: none of its modules"):
        hw.load(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("name", "limit"), [("roberta", 62), ("bert", 64), ("gpt2", 64), ("opt", 64), ("whisper", 30)]
)
def test_the_longest_text_a_model_reads(name: str, limit: int) -> None:
    model = hw.load(build(name))
    assert model.max_length == limit
    if name == "whisper":
        return
    (record,) = hw.look(model, {"input_ids": torch.full((1, limit), 7)})
    assert len(record.tokens) == limit
    with pytest.raises(TextError, match=rf"{limit + 1} tokens long.*at most {limit}"):
        hw.look(model, {"input_ids": torch.full((1, limit + 1), 7)})


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"input_ids": [[1, 2]]}, "input_ids must be a tensor, came list; .*return_tensors"),
        ({"input_ids": torch.tensor([1, 2])}, r"input_ids must be whole numbers.*\[2\]"),
        ({"input_ids": torch.ones(1, 3)}, r"input_ids must be whole numbers.*float32"),
        ({"input_ids": torch.ones(1, 0, dtype=torch.long)}, "input_ids must be whole numbers"),
        (
            {"input_ids": torch.tensor([[1, 2]]), "attention_mask": [[1, 1]]},
            "attention_mask must be a tensor",
        ),
        (
            {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.zeros(1, 2)},
            "a row of the batch is all padding",
        ),
        ({"note": "x"}, "the batch holds no tensor"),
    ],
)
def test_a_wrong_batch_is_named(batch: dict[str, object], message: str) -> None:
    with pytest.raises((TextError, ModelError), match=message):
        hw.look(hw.load(build("llama")), batch)


def test_a_text_without_a_tokenizer_and_a_target_without_a_decoder() -> None:
    model = hw.load(build("llama"))
    with pytest.raises(ModelError, match="LlamaForCausalLM has no tokenizer; load"):
        hw.look(model, "text")
    with pytest.raises(
        ModelError, match=r"ViTModel reads pixel_values, not text; .*'pixel_values'"
    ):
        hw.look(hw.load(build("vit")), "text")
    with pytest.raises(TextError, match="reads one text and writes no other"):
        hw.look(model, {"input_ids": ids_of(4)[0][None]}, target=["text"])
