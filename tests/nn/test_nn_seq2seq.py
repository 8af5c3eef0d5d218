"""Encoder-decoders of our blocks: a table of tokens for both stacks, distances in buckets, sound, instruments."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import headwise as hw
from headwise.names import ConfigError, ShapeError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.positions import place, relative, sinusoidal

Make = Callable[..., TransformerConfig]
TABLE = "decoder.embedding.tokens.weight"


def loud(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8) if parameter.dim() > 1 else parameter.normal_(1, 0.3)
    return model.eval()


def pair(length: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 31, (2, length)), torch.randint(0, 31, (2, 5))


def is_shared(model: EncoderDecoder) -> bool:
    """One parameter, which the encoder reads: a change of it changes the memory."""
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert sum("tokens" in name for name in names) == 1
    source, _ = pair()
    before = model.encode(source)
    with torch.no_grad():
        model.decoder.embedding.tokens.weight.add_(torch.randn(31, 24).to(before) * 0.5)
    return not torch.allclose(before, model.encode(source), atol=1e-3)


@torch.no_grad()
def test_a_shared_table_is_stored_once_and_stays_shared(tiny: Make, tmp_path: Path) -> None:
    config = tiny(share_embeddings=True)
    model = loud(EncoderDecoder(config))
    state = model.state_dict()
    assert [name for name in state if "tokens" in name] == [TABLE]
    source, target = pair()
    expected = model(source, target)
    save_file(state, tmp_path / "a.safetensors")
    other, assigned = EncoderDecoder(config).eval(), EncoderDecoder(config).eval()
    other.load_state_dict(load_file(tmp_path / "a.safetensors"))
    assigned.load_state_dict(load_file(tmp_path / "a.safetensors"), assign=True)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other, assigned]
    for twin in twins:
        assert_close(twin(source, target), expected)
        assert is_shared(twin)
    assert_close(model(source, target), expected)  # a copy's table is its own
    double = copy.deepcopy(model).to(torch.float64)
    assert double.encode(source).dtype == torch.float64
    assert is_shared(double)
    assert is_shared(model)


def test_a_shared_table_learns_from_both_stacks(tiny: Make) -> None:
    model = EncoderDecoder(tiny(share_embeddings=True, tie_embeddings=False))
    source, target = torch.tensor([[3, 4]]), torch.tensor([[5, 6]])
    model(source, target).logsumexp(-1).sum().backward()
    grad = model.decoder.embedding.tokens.weight.grad
    assert grad is not None
    assert (grad.abs().sum(-1) > 0).nonzero().flatten().tolist() == [3, 4, 5, 6]


@torch.no_grad()
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_the_same(tiny: Make) -> None:
    model = loud(EncoderDecoder(tiny(share_embeddings=True, positions="relative")))
    source, target = pair()
    padding = torch.arange(9) >= torch.tensor([[9], [4]])
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert_close(compiled(source, target, padding), model(source, target, padding))


def bucket(distance: int, buckets: int, furthest: int) -> int:
    """Of a distance of 0 or more, as the paper's code has it, for one number."""
    exact = buckets // 2
    if distance < exact:
        return distance
    far = exact + int(math.log(distance / exact) / math.log(furthest / exact) * (buckets - exact))
    return min(far, buckets - 1)


@pytest.mark.parametrize(("buckets", "furthest"), [(8, 14), (32, 128), (12, 50)])
def test_buckets_by_hand(buckets: int, furthest: int) -> None:
    length = furthest + 30
    causal = relative(place(length, length), buckets, furthest, causal=True)[0]
    both = relative(place(length, length), buckets, furthest, causal=False)[0]
    for query in (0, 1, length // 2, length - 1):
        for key in range(length):
            back = bucket(abs(query - key), buckets, furthest)
            half = bucket(abs(query - key), buckets // 2, furthest)
            assert causal[query, key] == (back if key <= query else 0)
            assert both[query, key] == half + (buckets // 2 if key > query else 0)


@torch.no_grad()
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_padded_and_packed_rows_are_each_sequence_alone(tiny: Make, batch: Any, kind: Any) -> None:
    ids, padding, alone = batch
    model = loud(kind(tiny(positions="relative", relative_buckets=6, relative_max_distance=5)))
    for row, sequence in enumerate(alone):
        got = model(ids, padding)[row][~padding[row]]
        assert_close(got, model(sequence)[0], atol=1e-5, rtol=1e-5)
    documents = torch.cat([torch.full((1, x.shape[1]), i) for i, x in enumerate(alone)], 1)
    packed = model(torch.cat(alone, 1), documents=documents)
    assert_close(packed, torch.cat([model(x) for x in alone], 1), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_cached_steps_of_relative_positions_are_the_full_pass(tiny: Make) -> None:
    model = loud(Decoder(tiny(positions="relative", relative_buckets=6, relative_max_distance=5)))
    ids = torch.randint(0, 31, (2, 14))
    full = model(ids)
    assert (full - model(ids.roll(1, 1)).roll(-1, 1)).abs()[:, 2:-1].max() > 1e-3
    for chunks in ([1] * 14, [5, 1, 8]):
        cache = model.new_cache(14)
        steps = [model(part, cache=cache) for part in ids.split(chunks, 1)]
        assert_close(torch.cat(steps, 1), full, atol=1e-5, rtol=1e-5)


def test_the_bias_of_distances_is_of_each_head(tiny: Make) -> None:
    model = Decoder(tiny(positions="relative"))
    assert model.state_dict()["relative.weight"].shape == (32, 6)
    with torch.no_grad():
        model.relative.weight.zero_()
        flat = model(torch.tensor([[1, 2, 3]]))
        model.relative.weight[1, 4] = 9.0  # head 4 looks at the token before
    assert not torch.allclose(model(torch.tensor([[1, 2, 3]])), flat, atol=1e-4)
    (record,) = hw.look(hw.load(model), {"input_ids": torch.tensor([[1, 2, 3]])})
    assert record.pattern("0.4").values[2, 1] > 0.99
    assert record.pattern("0.3").values[2, 1] < 0.5


@torch.no_grad()
def test_instruments_on_relative_positions(tiny: Make) -> None:
    model = loud(EncoderDecoder(tiny(positions="relative", share_embeddings=True)))
    loaded = hw.load(model)
    source, target = pair()
    inputs = {"input_ids": source[:1], "decoder_input_ids": target[:1]}
    (record,) = hw.look(loaded, inputs)
    assert record.verified < 1e-5
    for stream, queries, keys in (("encoder", 9, 9), ("decoder", 5, 5), ("cross", 5, 9)):
        pattern = record.pattern(f"{stream}.1.2")
        assert pattern.shape == (queries, keys)
        assert_close(torch.from_numpy(pattern.values).sum(-1).float(), torch.ones(queries))
    before = model(source, target)
    with hw.ablate(loaded, ["decoder.1.2", "encoder.0.5"], how="zero"):
        ablated = model(source, target)
    for layer, head in ((model.decoder.blocks[1], 2), (model.encoder.blocks[0], 5)):
        layer.attention.w_o.weight[:, 4 * head : 4 * head + 4] = 0
    assert (ablated - before).abs().max() > 1e-3
    assert_close(ablated, model(source, target), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_heads_that_were_cut_keep_their_own_bias(tiny: Make) -> None:
    config = tiny(positions="relative", num_kv_heads=6)
    model = loud(EncoderDecoder(config))
    loaded = hw.load(model)
    source, target = pair()
    heads = ["encoder.0.0", "encoder.0.3", "decoder.1.1", "cross.1.5"]
    with hw.ablate(loaded, heads, how="zero"):
        expected = model(source, target)
    cut = hw.prune(loaded, heads=heads).module
    assert cut.encoder.blocks[0].attention.num_heads == 4
    assert_close(cut(source, target), expected, atol=1e-5, rtol=1e-5)


def test_a_scale_is_on_the_scores() -> None:
    torch.manual_seed(0)
    plain, scaled = (MultiHeadAttention(24, 3, scale=scale) for scale in (None, 0.5))
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(1, 4, 24)
    with torch.no_grad():
        scaled.w_qkv.weight[:24] *= 8**-0.5 / 0.5
        scaled.w_qkv.bias[:24] *= 8**-0.5 / 0.5
    assert_close(scaled(x), plain(x))


def test_sines_then_cosines() -> None:
    table = sinusoidal(torch.arange(9), 8)
    halves = sinusoidal(torch.arange(9), 8, "halves")
    assert_close(halves, torch.cat((table[:, 0::2], table[:, 1::2]), -1))


@torch.no_grad()
def test_an_encoder_of_sound(tiny: Make) -> None:
    config = tiny(features=5, positions="learned", encoder_max_length=10)
    model = loud(EncoderDecoder(config))
    assert model.encoder.config.max_length == 10
    assert model.decoder.embedding.positions.weight.shape == (32, 24)
    assert not any("tokens" in name for name in model.encoder.state_dict())
    sound, target = torch.randn(2, 5, 20), torch.randint(0, 31, (2, 4))
    memory = model.encode(sound)
    assert memory.shape == (2, 10, 24)
    assert_close(model(sound, target), model.decoder(target, memory=memory))
    padding = torch.arange(10) >= torch.tensor([[10], [6]])
    other = sound.clone()
    other[1, :, 13:] = 0  # frame 12 is the last that position 5 hears
    assert_close(model.encode(other, padding)[~padding], model.encode(sound, padding)[~padding])
    assert (model.encode(other)[1, :6] - memory[1, :6]).abs().max() > 1e-3
    with pytest.raises(ShapeError, match="11 tokens came, the model has learned max_length=10"):
        model.encode(torch.randn(1, 5, 22))


@pytest.mark.usefixtures("unchecked")
def test_sound_that_does_not_fit_is_named(tiny: Make) -> None:
    model = EncoderDecoder(tiny(features=5))
    with pytest.raises(ShapeError, match=r"\[batch, features=5, frame\], came \[2, 20, 5\] of flo"):
        model.encode(torch.randn(2, 20, 5))
    with pytest.raises(ShapeError, match=r"came \[2, 20\] of int64"):
        model.encode(torch.zeros(2, 20, dtype=torch.long))
    with pytest.raises(ConfigError, match="features=5 is for an encoder, and a decoder reads"):
        Decoder(tiny(features=5))


@torch.no_grad()
def test_instruments_on_an_encoder_of_sound(tiny: Make) -> None:
    model = loud(EncoderDecoder(tiny(features=5, positions="learned")))
    loaded, sound, target = hw.load(model), torch.randn(1, 5, 20), torch.randint(0, 31, (1, 4))
    inputs = {"input_features": sound, "decoder_input_ids": target}
    (record,) = hw.look(loaded, inputs)
    assert record.verified < 1e-5
    assert record.pattern("cross.1.2").shape == (4, 10)
    before = model(sound, target)
    with hw.ablate(loaded, ["cross.1.2"], how="zero", inputs=inputs):
        ablated = model(sound, target)
    model.decoder.blocks[1].cross_attention.w_o.weight[:, 8:12] = 0
    assert (ablated - before).abs().max() > 1e-3
    assert_close(ablated, model(sound, target), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_distances_count_real_tokens(tiny: Make, batch: Any) -> None:
    """Padding after a prompt stands between its tokens and the new ones."""
    ids, padding, alone = batch
    model = loud(Decoder(tiny(positions="relative", relative_buckets=6, relative_max_distance=5)))
    new, cache = torch.randint(0, 31, (3, 3)), model.new_cache(10)
    model(ids, padding, cache)
    steps = torch.cat([model(token, cache=cache) for token in new.split(1, 1)], 1)
    for row, sequence in enumerate(alone):
        whole = model(torch.cat((sequence, new[row : row + 1]), 1))
        assert_close(steps[row], whole[0, -3:], atol=1e-5, rtol=1e-5)
