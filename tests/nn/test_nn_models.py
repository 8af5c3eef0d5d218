from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from headwise.names import ShapeError
from headwise.nn import Decoder, Encoder, EncoderDecoder, KVCache

POSITIONS = ["none", "sinusoidal", "learned", "rope", "alibi"]
WINDOWS = [None, 3]
every_scheme = pytest.mark.parametrize("positions", POSITIONS)
every_window = pytest.mark.parametrize("window", WINDOWS)


def real(out, padding):
    """Rows of a padded batch, padding taken out, one after the other."""
    return [row[~hidden][None] for row, hidden in zip(out, padding, strict=True)]


def loud(model):
    """Weights larger than at the start, so that a small mistake shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8) if parameter.dim() > 1 else parameter.normal_(1, 0.3)
    return model.eval()


@every_window
@every_scheme
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_padded_batch_is_each_sequence_alone(tiny, batch, kind, positions, window):
    ids, padding, alone = batch
    model = loud(kind(tiny(positions=positions, window=window)))
    for got, sequence in zip(real(model(ids, padding), padding), alone, strict=True):
        assert_close(got, model(sequence), atol=1e-5, rtol=1e-5)


@every_window
@every_scheme
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_packed_documents_are_each_sequence_alone(tiny, kind, positions, window):
    model = loud(kind(tiny(positions=positions, window=window)))
    alone = [torch.randint(0, 31, (1, n)) for n in (4, 6, 2)]
    documents = torch.tensor([[7] * 4 + [3] * 6 + [5] * 2])
    got = model(torch.cat(alone, 1), documents=documents).split([4, 6, 2], dim=1)
    for part, sequence in zip(got, alone, strict=True):
        assert_close(part, model(sequence), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@every_window
@every_scheme
@pytest.mark.parametrize("chunks", [[9], [1] * 9, [4, 3, 2], [5, 1, 1, 2]])
def test_cached_is_chunked_is_full(tiny, positions, window, chunks):
    model = loud(Decoder(tiny(positions=positions, window=window)))
    ids = torch.randint(0, 31, (2, 9))
    cache = model.new_cache(9)
    steps = [model(part, cache=cache) for part in ids.split(chunks, dim=1)]
    assert cache.length == 9
    assert_close(torch.cat(steps, 1), model(ids), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@every_window
@every_scheme
def test_padded_prompt_decodes_as_each_sequence_alone(tiny, batch, positions, window):
    ids, padding, alone = batch
    model = loud(Decoder(tiny(positions=positions, window=window)))
    new = torch.randint(0, 31, (3, 4))
    cache = model.new_cache(11)
    model(ids, padding, cache)
    steps = torch.cat([model(token, cache=cache) for token in new.split(1, dim=1)], 1)
    for row, sequence in enumerate(alone):
        whole = torch.cat((sequence, new[row : row + 1]), 1)
        assert_close(steps[row], model(whole)[0, -4:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
@every_scheme
def test_padding_that_starts_after_the_first_chunk(tiny, positions):
    model = loud(Decoder(tiny(positions=positions)))
    ids = torch.randint(0, 31, (2, 6))
    late = torch.tensor([[False, False], [True, False]])
    cache = model.new_cache(6)
    model(ids[:, :4], cache=cache)
    got = model(ids[:, 4:], late, cache)
    assert_close(got[0, -1], model(ids[:1])[0, -1], atol=1e-5, rtol=1e-5)
    short = ids[1:, [0, 1, 2, 3, 5]]
    assert_close(got[1, -1], model(short)[0, -1], atol=1e-5, rtol=1e-5)


@every_scheme
def test_decoder_does_not_see_the_future(tiny, positions):
    model = loud(Decoder(tiny(positions=positions)))
    ids = torch.randint(0, 31, (1, 8))
    other = ids.clone()
    other[0, 5:] = (other[0, 5:] + 1) % 31
    a, b = model(ids), model(other)
    assert_close(a[:, :5], b[:, :5])
    assert (a[:, 5:] - b[:, 5:]).abs().amax(-1).min() > 1e-3


def test_a_window_limits_what_a_layer_sees(tiny):
    model = loud(Decoder(tiny(num_layers=1, window=3)))
    ids = torch.randint(0, 31, (1, 8))
    other = ids.clone()
    other[0, 2] = (other[0, 2] + 1) % 31
    changed = (model.hidden(ids) - model.hidden(other)).abs().amax(-1)[0] > 1e-5
    assert changed.tolist() == [False, False, True, True, True, False, False, False]
    encoder = loud(Encoder(tiny(num_layers=1, window=3)))
    changed = (encoder(ids) - encoder(other)).abs().amax(-1)[0] > 1e-5
    assert changed.tolist() == [True, True, True, True, True, False, False, False]


def test_order_counts_only_with_positions(tiny):
    ids = torch.randint(0, 31, (1, 8))
    order = torch.tensor([3, 1, 0, 2, 7, 6, 5, 4])
    for positions in POSITIONS:
        model = loud(Encoder(tiny(positions=positions)))
        same = torch.allclose(model(ids[:, order]), model(ids)[:, order], atol=1e-5)
        assert same == (positions == "none"), positions


@torch.no_grad()
def test_encoder_decoder(tiny, batch):
    source, padding, alone = batch
    model = loud(EncoderDecoder(tiny(num_decoder_layers=3)))
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (2, 3)
    target = torch.randint(0, 31, (3, 5))
    full = model(source, target, padding)
    for row, sequence in enumerate(alone):
        assert_close(full[row], model(sequence, target[row : row + 1])[0], atol=1e-5, rtol=1e-5)
    memory = model.encoder(source, padding)
    cache = model.decoder.new_cache(5)
    steps = [
        model.decoder(token, cache=cache, memory=memory, memory_padding_mask=padding)
        for token in target.split(1, dim=1)
    ]
    assert_close(torch.cat(steps, 1), full, atol=1e-5, rtol=1e-5)
    changed = model(source.flip(0), target, padding.flip(0))
    assert (changed[0] - full[0]).abs().max() > 1e-3


def test_memory_that_is_missing_or_unwanted_is_named(tiny):
    ids = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(ShapeError, match="attends to a memory; pass memory="):
        Decoder(tiny(), cross=True)(ids)
    with pytest.raises(ShapeError, match="no block attends to one"):
        Decoder(tiny())(ids, memory=torch.zeros(1, 3, 24))


def test_layers_start_apart_and_small(tiny):
    model = Decoder(tiny(d_model=96, num_layers=4))
    first, second = model.blocks[0].state_dict(), model.blocks[1].state_dict()
    for name, weight in first.items():
        if weight.dim() > 1:
            assert not torch.equal(weight, second[name]), name
            into_stream = name.endswith(("w_o.weight", "w_out.weight"))
            expected = 0.02 / 8**0.5 if into_stream else 0.02
            assert weight.std().item() == pytest.approx(expected, rel=0.1), name
        elif name.endswith("bias"):
            assert not weight.any(), name
    assert model.embedding.tokens.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_gradients_reach_every_parameter(tiny):
    for norm_position in ("pre", "post"):
        model = Decoder(tiny(norm_position=norm_position, positions="learned"))
        model(torch.randint(0, 31, (2, 32))).logsumexp(-1).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_norm_position_by_hand(tiny):
    for norm_position in ("pre", "post"):
        model = Encoder(tiny(num_layers=1, norm_position=norm_position, final_norm=False))
        block = loud(model).blocks[0]
        x = torch.randn(1, 4, 24)
        attend, feed = block.attention, block.ffn
        n1, n2 = block.attention_norm, block.ffn_norm
        if norm_position == "pre":
            y = x + attend(n1(x))
            expected = y + feed(n2(y))
        else:
            y = n1(x + attend(x))
            expected = n2(y + feed(y))
        assert_close(block(x), expected)


@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_eval_has_no_dropout(tiny, kind):
    plain = kind(tiny()).eval()
    model = kind(tiny(dropout=0.5, attention_dropout=0.5))
    model.load_state_dict(plain.state_dict())
    ids = torch.randint(0, 31, (2, 6))
    assert not torch.equal(model(ids), model(ids))
    assert_close(model.eval()(ids), plain(ids))


@every_window
@every_scheme
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_the_same(tiny, batch, positions, window):
    ids, padding, _ = batch
    model = loud(Decoder(tiny(positions=positions, window=window)))
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert_close(compiled(ids), model(ids))
    assert_close(compiled(ids, padding), model(ids, padding))


def test_deepcopy_and_pickle(tiny):
    for positions in POSITIONS:
        model = loud(Decoder(tiny(positions=positions, activation="swiglu", norm="rms")))
        ids = torch.randint(0, 31, (2, 6))
        expected = model(ids)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert_close(twin(ids), expected)
            assert twin.config == model.config
            with torch.no_grad():
                twin.embedding.tokens.weight.zero_()
        assert_close(model(ids), expected)


def test_meta_then_assign(tiny):
    for positions in POSITIONS:
        model = loud(Decoder(tiny(positions=positions)))
        with torch.device("meta"):
            empty = Decoder(tiny(positions=positions))
        empty.load_state_dict(model.state_dict(), assign=True)
        ids = torch.randint(0, 31, (2, 6))
        assert_close(empty.eval()(ids), model(ids))


def test_tied_output_is_the_embedding(tiny):
    tied, free = Decoder(tiny()), Decoder(tiny(tie_embeddings=False))
    assert "unembed.weight" not in tied.state_dict()
    assert "unembed.weight" in free.state_dict()
    hidden = torch.randn(1, 2, 24)
    assert_close(tied.logits(hidden), hidden @ tied.embedding.tokens.weight.T)
    assert_close(free.logits(hidden), hidden @ free.unembed.weight.T)


def test_state_dict_keys_are_stable(tiny):
    block = [
        "attention.w_qkv.weight",
        "attention.w_qkv.bias",
        "attention.w_o.weight",
        "attention.w_o.bias",
        "attention_norm.weight",
        "attention_norm.bias",
        "ffn.w_in.weight",
        "ffn.w_in.bias",
        "ffn.w_out.weight",
        "ffn.w_out.bias",
        "ffn_norm.weight",
        "ffn_norm.bias",
    ]
    config = tiny(
        num_layers=1,
        positions="learned",
        token_types=2,
        embedding_norm=True,
        tie_embeddings=False,
    )
    assert list(Decoder(config).state_dict()) == [
        "embedding.tokens.weight",
        "embedding.positions.weight",
        "embedding.segments.weight",
        "embedding.norm.weight",
        "embedding.norm.bias",
        *[f"blocks.0.{name}" for name in block],
        "final_norm.weight",
        "final_norm.bias",
        "unembed.weight",
    ]
    crossed = {name for name in Decoder(config, cross=True).state_dict() if "cross" in name}
    assert crossed == {
        f"blocks.0.cross_{name}" for name in block if name.startswith("attention.")
    } | {"blocks.0.cross_norm.weight", "blocks.0.cross_norm.bias"}


def test_sinusoidal_embeddings_are_scaled(tiny):
    model = Encoder(tiny(positions="sinusoidal"))
    ids = torch.tensor([[4]])
    expected = model.embedding.tokens(ids) * 24**0.5
    expected[..., 1::2] += 1
    assert_close(model.embedding(ids, torch.tensor([[0]])), expected)


def test_segments(tiny):
    model = loud(Encoder(tiny(token_types=2)))
    ids = torch.randint(0, 31, (1, 4))
    assert_close(model(ids), model(ids, token_types=torch.zeros_like(ids)))
    assert not torch.allclose(model(ids), model(ids, token_types=torch.ones_like(ids)))
    with pytest.raises(ShapeError, match="token_types came, but this model has no segments"):
        Encoder(tiny())(ids, token_types=ids)


@pytest.mark.usefixtures("unchecked")
def test_inputs_that_do_not_fit_are_named(tiny):
    model = Decoder(tiny(positions="learned"))
    ids = torch.zeros(2, 5, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"ids must be whole numbers .* came \[5\] of int64; add"):
        model(ids[0])
    with pytest.raises(ShapeError, match=r"came .* of float32"):
        model(ids.float())
    with pytest.raises(ShapeError, match=r"key_padding_mask must be like ids, \[2, 5\]"):
        model(ids, torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="33 tokens came, the model has learned max_length=32"):
        model(torch.zeros(1, 33, dtype=torch.long))
    with pytest.raises(ShapeError, match="leave it out with a cache"):
        model(ids, cache=model.new_cache(), documents=ids)


@torch.no_grad()
def test_a_cache_that_does_not_fit_is_named(tiny):
    model = Decoder(tiny())
    ids = torch.zeros(2, 5, dtype=torch.long)
    cache = model.new_cache(6)
    model(ids, cache=cache)
    with pytest.raises(ShapeError, match=r"room for 6 tokens, holds 5 and got 2 more; make it"):
        model(ids[:, :2], cache=cache)
    cache = model.new_cache(6)
    model(ids, cache=cache)
    with pytest.raises(ShapeError, match="make one cache per batch"):
        model(ids[:1, :1], cache=cache)


@torch.no_grad()
def test_cache_takes_layers_of_different_sizes(tiny):
    model = loud(Decoder(tiny()))
    other = Decoder(tiny(num_heads=3, num_kv_heads=1, head_dim=4))
    model.blocks[1] = loud(other).blocks[1]
    ids = torch.randint(0, 31, (2, 6))
    cache = KVCache(2, 6)
    steps = [model(part, cache=cache) for part in ids.split(2, dim=1)]
    assert_close(torch.cat(steps, 1), model(ids), atol=1e-5, rtol=1e-5)
