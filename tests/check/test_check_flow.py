"""flow: what moves is what the masks allow, layer by layer; what a block leaks shows at its layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import headwise as hw
from bytes_help import byte_tokenizer
from headwise import masks
from headwise.names import HeadError, TextError

TEXT = "windows that leak"


def windowed(layers: int = 4, window: int = 4) -> hw.Model:
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=window,
    )
    module = transformers.MistralModel(config).eval()
    for parameter in module.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return hw.load(module, tokenizer=byte_tokenizer())


def test_a_window_grows_by_layer_and_what_moves_is_what_it_allows() -> None:
    found = hw.flow(windowed(), TEXT)
    reach = masks.reach(masks.causal() & masks.window(4), 4, length=len(TEXT))
    assert np.array_equal(found.first, reach.first[0].numpy())
    assert np.array_equal(found.flows, found.allowed)
    assert found.clean
    for layer in range(1, 5):
        assert int(found.flows[layer - 1, -1].sum()) == min(len(TEXT), 1 + 3 * layer)


def mixed(module: Any, given: Any, out: torch.Tensor) -> torch.Tensor:
    """What a pooling over time does: every position gets the mean of all."""
    return out + out.mean(1, keepdim=True)


def test_a_mean_over_time_leaks_from_its_layer_on() -> None:
    model = windowed()
    hook = model.module.layers[2].mlp.register_forward_hook(mixed)
    found = hw.flow(model, TEXT)
    hook.remove()
    assert not found.clean
    assert {leak.layer.layer for leak in found.leaks} == {2, 3}
    assert np.array_equal(found.flows[:2], found.allowed[:2])
    assert found.flows[2].all()
    (first, *_) = found.leaks
    assert not found.allowed[2, first.query, first.key]
    assert found.as_dict()["num_leaks"] == len(found.leaks)
    assert "from layer 2 on" in found.says


def test_an_encoder_is_full_after_one_layer() -> None:
    config = hw.nn.TransformerConfig(vocab_size=256, num_layers=2, num_heads=2, d_model=16, d_ff=32)
    torch.manual_seed(0)
    found = hw.flow(hw.load(hw.nn.Encoder(config), tokenizer=byte_tokenizer()), "full at once")
    assert found.clean
    assert found.flows[0].all()


@pytest.mark.parametrize("stream", ["encoder", "decoder", "cross"])
def test_the_streams_of_an_encoder_decoder(stream: str) -> None:
    config = hw.nn.TransformerConfig(vocab_size=256, num_layers=2, num_heads=2, d_model=16, d_ff=32)
    torch.manual_seed(0)
    model = hw.load(hw.nn.EncoderDecoder(config), tokenizer=byte_tokenizer())
    found = hw.flow(model, "read", target="write it", stream=stream)
    shape = {"encoder": (2, 4, 4), "decoder": (2, 8, 8), "cross": (2, 8, 4)}[stream]
    assert found.moved.shape == shape
    assert np.array_equal(found.flows, found.allowed)


def test_long_texts_are_tried_at_some_tokens_and_say_so() -> None:
    found = hw.flow(windowed(2), "many words to read " * 8, draws=1)
    assert (len(found.tried), found.tried[0], found.tried[-1]) == (64, 0, 151)
    assert "64 of 152 tokens" in found.says
    assert hw.flow(windowed(2), TEXT, keys=[3, 5]).tried == (3, 5)


def test_mistakes_are_told() -> None:
    model = windowed(2)
    with pytest.raises(TextError, match="keys must be tokens from 0 to 16"):
        hw.flow(model, TEXT, keys=[17])
    with pytest.raises(HeadError, match="no stream 'encoder'"):
        hw.flow(model, TEXT, stream="encoder")


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "e5-small"])
def test_real_models_let_through_what_their_masks_do(name: str) -> None:
    found = hw.flow(hw.load(name, quiet=True), "The animal was too tired", draws=1)
    assert found.clean
    assert np.array_equal(found.flows, found.allowed)
