"""What cannot be looked into, or only in part, is said: pieces of an image, unknown arguments, other attention."""

from __future__ import annotations

import pytest
import torch
import transformers
from tiny_fields import BART, T5
from tiny_models import build, ids_of, inputs_of, seeded

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.names import ModelError


def test_packed_images_are_looked_into_one_at_a_time() -> None:
    model, one = hw.load(build("qwen2-vl")), inputs_of("qwen2-vl")
    two = {name: torch.cat([x, x], dim=1) for name, x in one.items() if "ids" in name}
    two |= {name: torch.cat([x, x]) for name, x in one.items() if "ids" not in name}
    with pytest.raises(ModelError, match=r"VisionAttention attends within pieces of its input"):
        hw.look(model, two)
    (record,) = hw.look(model, one)
    assert {id.stream for id in record.layers} == {"visual", "language_model"}


def test_windows_of_an_image_are_refused() -> None:
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    )
    model = hw.load(seeded(transformers.SwinModel, config))
    with pytest.raises(ModelError, match=r"splits the batch of 1 into 4; .*windows of an image"):
        hw.look(model, {"pixel_values": torch.randn(1, 3, 32, 32)})


def test_an_argument_the_models_attention_uses_and_we_do_not_read_is_refused(monkeypatch) -> None:
    """Found in the signature of the model's own attention, whatever its family."""
    from transformers.models.llama import modeling_llama as file

    from headwise.hub.routes import bridge

    plain = file.eager_attention_forward

    def with_temperature(
        module, query, key, value, attention_mask, scaling, temperature=None, **kwargs
    ):
        return plain(module, query, key, value, attention_mask, scaling, **kwargs)

    monkeypatch.setattr(file, "eager_attention_forward", with_temperature)
    bridge._arguments_of.cache_clear()
    model = hw.load(build("llama"))
    hw.look(model, inputs_of("llama"))  # not given, so nothing is missed
    with pytest.raises(ModelError, match=r"LlamaAttention .* also takes temperature, which"):
        hw.look(model, {**inputs_of("llama"), "temperature": 2.0})
    bridge._arguments_of.cache_clear()


PARTLY = {
    "LongT5": (T5, "LongT5LocalAttention"),
    "BigBirdPegasus": (
        {**BART, "max_position_embeddings": 64, "block_size": 2, "num_random_blocks": 1},
        "BigBirdPegasusBlockSparseAttention",
    ),
}


@pytest.mark.parametrize("family", PARTLY)
def test_attention_that_is_left_out_is_named(family: str, capsys) -> None:
    fields, cls = PARTLY[family]
    config = getattr(transformers, f"{family}Config")(**fields)
    model = hw.load(seeded(getattr(transformers, f"{family}ForConditionalGeneration"), config))
    said = capsys.readouterr().err
    assert f"2 attention modules ({cls}) do not go through" in said
    assert said.startswith(f"headwise: {family}")
    assert len(model.anatomy.unseen) == 2
    inputs = {"input_ids": ids_of(8)[0][None], "decoder_input_ids": ids_of(5)[0][None]}
    (record,) = hw.look(model, inputs)
    assert {id.stream for id in record.layers} == {"decoder", "cross"}
    assert record.verified < 1e-5


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "vit", "whisper"])
def test_nothing_is_left_out_of_a_whole_model(name: str, capsys) -> None:
    assert hw.load(build(name)).anatomy.unseen == {}
    assert capsys.readouterr().err == ""


def test_a_gate_cuts_both_looks_of_a_differential_head() -> None:
    """DiffLlama attends twice with one pattern; without its heads a layer is as one without values."""
    inputs, loaded = inputs_of("diffllama"), hw.load(build("diffllama"))
    taps = {layer.module: Tap(gate=torch.zeros(6)) for layer in loaded.anatomy.layers}
    with loaded.open(), tapped(taps):
        gated = loaded.run(inputs).logits
    plain = loaded.run(inputs).logits
    with torch.no_grad():
        for layer in loaded.anatomy.layers:
            layer.module.v_proj.weight.zero_()
    torch.testing.assert_close(gated, loaded.run(inputs).logits, atol=1e-5, rtol=0)
    assert (plain - gated).abs().max() > 1e-2
