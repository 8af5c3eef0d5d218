"""fires: what each neuron adds at a token is what cutting it takes away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from neurons_help import planted
from see_help import byte_tokenizer

import headwise as hw
from headwise.names import HeadError, LayerId, ModelError, TextError
from headwise.see.neurons.lens import token_name


def test_a_planted_neuron_fires_where_it_should_and_raises_what_it_writes() -> None:
    found = hw.fires(planted(), "a quay")
    (fire, *_) = found.at(2)
    assert str(fire.neuron) == "0.3"
    assert fire.share == pytest.approx(1)
    assert fire.norm == pytest.approx(2 * fire.activation)
    assert found.raises("0.3", top=1) == ("!",)
    assert found.raises("0.3", negative=True, top=1) != ("!",)
    assert found.layers[LayerId("", 0)].at(3)[0].activation == 0


@pytest.mark.parametrize("kind", ["bytes_model", "encoder_model"])
def test_what_a_neuron_adds_is_what_cutting_it_takes_away(kind: str, request: Any) -> None:
    model = request.getfixturevalue(kind)
    text = "One 书, two."
    with torch.no_grad():
        for block in model.module.blocks:
            block.ffn.w_out.bias.normal_(0, 2.0)
    found = hw.fires(model, text, top=32)
    ids = torch.tensor([model.tokenizer.encode(text).ids])
    for id, layer in found.layers.items():
        ffn = model.module.blocks[id.layer].ffn
        outs: list[torch.Tensor] = []
        hook = ffn.register_forward_hook(lambda m, given, out, outs=outs: outs.append(out[0]))
        model.run({"input_ids": ids})
        added = (outs[0] - ffn.w_out.bias).detach()
        torch.testing.assert_close(layer.output, added.norm(dim=1), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(layer.total, torch.ones(len(added)), atol=1e-4, rtol=1e-4)
        assert torch.equal(layer.norm, layer.norm.sort(descending=True).values)
        for fire in layer.at(3)[:5]:
            kept = ffn.w_out.weight[:, fire.neuron.neuron].clone()
            with torch.no_grad():
                ffn.w_out.weight[:, fire.neuron.neuron] = 0
            outs.clear()
            model.run({"input_ids": ids})
            with torch.no_grad():
                ffn.w_out.weight[:, fire.neuron.neuron] = kept
            mine = (added[3] - (outs[0][3] - ffn.w_out.bias)).detach()
            assert fire.norm == pytest.approx(float(mine.norm()), rel=1e-3, abs=1e-4)
            share = float(mine @ added[3] / added[3].square().sum())
            assert fire.share == pytest.approx(share, rel=1e-3, abs=1e-4)
        hook.remove()


def test_shares_rank_over_layers_and_a_layer_can_be_asked_for(bytes_model: hw.Model) -> None:
    found = hw.fires(bytes_model, "One two", top=4)
    best = found.at(2, top=8)
    assert [f.share for f in best] == sorted((f.share for f in best), reverse=True)
    assert {f.neuron.layer for f in best} == {0, 1}
    assert {f.neuron.layer for f in found.at(2, layers=[LayerId("", 1)])} == {1}
    with pytest.raises(HeadError, match=r"no layer 9 of neurons: Decoder has the layers 0 to 1"):
        found.at(2, layers=[LayerId("", 9)])
    with pytest.raises(TextError, match="no token 7: the text has 0 to 6"):
        found.at(7)


def test_words_are_their_tokens(bytes_model: hw.Model) -> None:
    found = hw.fires(bytes_model, "One two")
    (place,) = found.places("two")
    assert (place.word.first, place.word.last, place.note) == (3, 7, None)
    with pytest.raises(TextError, match="'six' is not in the text"):
        found.places("six")


def test_an_encoder_raises_nothing(encoder_model: hw.Model) -> None:
    found = hw.fires(encoder_model, "One two")
    assert found.lens is None
    assert found.raises("0.3") == ()
    with pytest.raises(HeadError, match=r"no neuron 0\.32: layer 0 has the neurons 0\.0 to 0\.31"):
        found.raises("0.32")


def test_pieces_of_characters_are_named_by_their_bytes() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("书!").ids
    names = [token_name(hw.load(planted().module, tokenizer=tokenizer).tokenizer, i) for i in ids]
    assert names == ["E4", "B9", "A6", "!"]
    assert token_name(None, 7) == "7"


def test_both_texts_of_an_encoder_decoder() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=40, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = hw.load(T5ForConditionalGeneration(config).eval())
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[8, 9]])}
    found = hw.fires(model, inputs)
    assert [len(side.tokens) for side in found.sides] == [3, 2]
    assert {f.neuron.stream for f in found.at(1, side=found.sides[1])} == {"decoder"}
    assert found.raises("encoder.0.3") == ()  # what it writes is not read by the unembedding
    assert len(found.raises("decoder.1.3")) == 5
    table = hw.neurons(model, [inputs], everywhere=True)
    assert [str(id) for id in table.layers] == ["encoder.0", "encoder.1", "decoder.0", "decoder.1"]
    assert table.table["counted_tokens"].values.tolist() == [3, 3, 2, 2]


def test_audio_frames_are_numbered(bytes_model: hw.Model) -> None:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=40, d_model=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=16, num_mel_bins=8,
        max_source_positions=20, max_target_positions=30, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=2, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = hw.load(WhisperForConditionalGeneration(config).eval())
    inputs = {
        "input_features": torch.randn(1, 8, 40),
        "decoder_input_ids": torch.tensor([[5, 6, 7]]),
    }
    found = hw.neurons(model, [inputs])
    assert found.table["counted_tokens"].values.tolist() == [20, 2]
    assert [found.size(id) for id in found.layers] == [32, 16]
    assert np.isnan(found.table["mean"].values[1, 16:]).all()
    assert all(c.token.label == str(c.position) for c in found.contexts("encoder.0.3"))


def test_mistakes_are_told_in_one_line(bytes_model: hw.Model, unchecked: None) -> None:
    with pytest.raises(ModelError, match="fires takes a model from load"):
        hw.fires(bytes_model.module, "One")
    with pytest.raises(TextError, match="leave the target out"):
        hw.fires(bytes_model, "One", target="Two")
    with pytest.raises(TextError, match="one text at a time, came a batch of 2"):
        hw.fires(bytes_model, {"input_ids": torch.tensor([[1, 2], [3, 4]])})
    with pytest.raises(TextError, match="came int"):
        hw.fires(bytes_model, 7)
