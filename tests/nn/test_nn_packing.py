"""Packed weights: the same numbers from another layout, only while a model writes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from headwise.nn import Decoder, EncoderDecoder, generate
from headwise.nn.generating import packing


def sizes(tiny, **more):
    return tiny(d_model=64, num_heads=8, num_kv_heads=4, d_ff=160, vocab_size=96, **more)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
def test_packed_gives_the_same_logits(tiny, dtype, tied, rows):
    model = Decoder(sizes(tiny, tie_embeddings=tied)).to(dtype).eval()
    ids = torch.randint(0, 96, (rows, 9))
    exact = copy.deepcopy(model).double()(ids)
    with torch.no_grad():
        plain = model(ids)
        with packing.packed(model, rows, 50):
            packs = dtype is torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
            assert any("forward" in part.__dict__ for part in model.modules()) == packs
            assert ("unembed" in model.embedding.__dict__) == (tied and packs)
            got = model(ids)
    off = (plain.double() - exact).abs().max()
    assert (got.double() - exact).abs().max() <= 2 * off + 1e-6
    assert_close(got, plain, atol=2e-2 if dtype is torch.bfloat16 else 1e-5, rtol=1e-2)


def test_nothing_is_left_behind_and_short_texts_are_not_packed(tiny):
    model = EncoderDecoder(sizes(tiny)).eval()
    before = [dict(part.__dict__) for part in model.modules()]
    with pytest.raises(KeyError), packing.packed(model, 1, 50):
        raise KeyError
    for rows, steps in ((1, packing.FROM_STEPS - 1), (packing.MOST_ROWS + 1, 50)):
        with packing.packed(model, rows, steps):
            assert [part.__dict__ for part in model.modules()] == before
    assert [part.__dict__ for part in model.modules()] == before


def test_weights_of_a_model_that_is_too_large_lie_as_they_are(tiny, monkeypatch):
    model = Decoder(sizes(tiny)).eval()
    monkeypatch.setattr(packing, "MOST_BYTES", 1000)
    with packing.packed(model, 1, 50):
        assert not any("forward" in part.__dict__ for part in model.modules())


def test_what_is_written_is_the_same_and_forms_of_ones_own_stay(tiny):
    model = Decoder(sizes(tiny)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    ids = torch.randint(0, 96, (2, 5))
    calls = []
    layer = model.blocks[0].ffn.w_in
    hook = layer.register_forward_hook(lambda *_: calls.append(1))
    packed = generate(model, ids, 20)
    hook.remove()
    assert len(calls) == 20
    assert torch.equal(packed[:, :12], generate(model, ids, 7))
    forward = layer.forward
    layer.forward = lambda x: forward(x) * 0
    assert not torch.equal(generate(model, ids, 20), packed)
    assert "forward" in layer.__dict__
