"""A model that was cut does all it did: caches, padding, generation, training, records, further cuts, copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from cut_help import answers, build, inputs_of, off, uneven, whole_layers
from tiny_models import ids_of, padded

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.record import Cut, apply_cut, cut_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig

CAUSAL = {
    "gpt2": ("sdpa", "eager"),
    "llama": ("sdpa", "eager"),
    "llama-mqa": ("sdpa",),
    "qwen3": ("sdpa",),
    "phi3": ("sdpa", "eager"),
    "gpt-neox": ("sdpa",),
    "opt": ("sdpa",),
    "gemma2": ("eager",),
    "gpt-oss": ("eager",),
    "mistral-window": ("sdpa",),
}
WAYS = [(name, way) for name, ways in CAUSAL.items() for way in ways]
KINDS = [uneven, whole_layers]
READS_PADDING = {"opt"}
"""Models that count positions by the mask themselves."""

SMALL = {"vocab_size": 40, "d_model": 24, "num_layers": 2, "num_heads": 6, "num_kv_heads": 2}
OURS = {
    "decoder": lambda: Decoder(TransformerConfig(**SMALL)),
    "alibi": lambda: Decoder(TransformerConfig(**SMALL, positions="alibi")),
    "encoder": lambda: Encoder(TransformerConfig(**SMALL, positions="learned")),
    "encoder-decoder": lambda: EncoderDecoder(TransformerConfig(**SMALL)),
}


def ours(name: str) -> hw.Model:
    torch.manual_seed(0)
    module = OURS[name]().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.35)
    return hw.load(module, quiet=True)


def far(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "way"), WAYS)
@torch.no_grad()
def test_a_cached_step_is_the_full_pass(name: str, way: str, kind) -> None:
    model = hw.load(build(name, way), quiet=True)
    heads = kind(model)
    cut = cut_heads(model, heads).module
    ids = ids_of(9)[0][None]
    full, cache, steps = cut(ids).logits, None, []
    for i in range(ids.shape[1]):
        out = cut(ids[:, i : i + 1], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        steps.append(out.logits)
    assert far(torch.cat(steps, 1), full) < 1e-5
    written = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with hw.ablate(model, heads):
        wanted = model.module.generate(ids, **written)
    assert torch.equal(cut.generate(ids, **written), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
@torch.no_grad()
def test_an_encoder_decoder_writes_with_its_cache(name: str, kind) -> None:
    model = hw.load(build(name), quiet=True)
    heads = kind(model)
    cut = cut_heads(model, heads).module
    inputs = inputs_of(name)
    target = inputs.pop("decoder_input_ids")
    full = cut(**inputs, decoder_input_ids=target).logits
    read = cut.get_encoder()(**inputs)
    cache, steps = None, []
    for i in range(target.shape[1]):
        step = {"decoder_input_ids": target[:, i : i + 1], "past_key_values": cache}
        out = cut(encoder_outputs=read, use_cache=True, **step)
        cache = out.past_key_values
        steps.append(out.logits)
    assert far(torch.cat(steps, 1), full) < 1e-5
    written = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with hw.ablate(model, heads):
        wanted = model.module.generate(**inputs, **written)
    assert torch.equal(cut.generate(**inputs, **written), wanted)


def test_a_layer_without_heads_keeps_one_number_per_position() -> None:
    model = hw.load(build("llama"), quiet=True)
    cut = cut_heads(model, "0.*").module
    with torch.no_grad():
        cache = cut(ids_of(9)[0][None], use_cache=True).past_key_values
    assert list(cache.layers[0].keys.shape) == [1, 1, 9, 1]
    assert list(cache.layers[1].keys.shape) == [1, 2, 9, 4]
    assert cache.get_seq_length() == 9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "phi3", "gpt-oss", "opt", "bert", "albert"])
@torch.no_grad()
def test_padding_on_either_side_is_one_row_at_a_time(name: str, side: str, kind) -> None:
    model = hw.load(build(name), quiet=True)
    cut = cut_heads(model, kind(model)).module
    rows = ids_of(9, 4, 6)
    batch = padded(rows, side)
    if name not in READS_PADDING:
        batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp_min(0)
    out = cut(**batch)[0]
    for i, row in enumerate(rows):
        alone = cut(row[None])[0][0]
        assert far(out[i][batch["attention_mask"][i].bool()], alone) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OURS)
def test_our_blocks_are_cut(name: str, kind) -> None:
    model = ours(name)
    heads = kind(model)
    cut = cut_heads(model, heads)
    ids = torch.stack(ids_of(7, 7))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs["attention_mask"][1, 5:] = 0
    if name == "encoder-decoder":
        inputs["decoder_input_ids"] = torch.stack(ids_of(5, 5, seed=2))
    with hw.ablate(model, heads):
        wanted = answers(model, inputs)
    assert off(answers(cut, inputs), wanted) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["decoder", "alibi"])
@torch.no_grad()
def test_our_decoder_steps_with_a_cache(name: str, kind) -> None:
    model = ours(name)
    cut = cut_heads(model, kind(model)).module
    ids = ids_of(9)[0][None]
    cache = cut.new_cache(9)
    steps = torch.cat([cut(ids[:, i : i + 1], cache=cache) for i in range(9)], 1)
    assert far(steps, cut(ids)) < 1e-5
    kept = cache.layers[1].held()
    assert kept is not None
    assert kept[0].shape[1] <= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bert"])
def test_training_reaches_what_is_left(name: str, kind) -> None:
    model = hw.load(build(name), quiet=True)
    cut = cut_heads(model, kind(model))
    module = cut.module.train()
    module(**inputs_of(name))[0].square().mean().backward()
    attended = [run.layer.module for run in census(cut).runs]
    for part in attended:
        grads = [p.grad for p in part.parameters() if p.numel()]
        assert any(bool(grad.abs().any()) for grad in grads if grad is not None)
        assert all(bool(grad.isfinite().all()) for grad in grads if grad is not None)
    assert all(p.requires_grad for p in module.parameters())


@pytest.mark.parametrize("name", ["gpt2", "llama", "phi3", "t5", "bert", "gpt-oss"])
def test_cut_twice_is_cut_once(name: str) -> None:
    model = hw.load(build(name), quiet=True)
    first = uneven(model)
    cut = cut_heads(model, first)
    then = [run.id.head(run.heads[0]) for run in census(cut).runs]
    twice, once = cut_heads(cut, then), cut_heads(model, [*first, *then])
    inputs = inputs_of(name)
    assert off(answers(twice, inputs), answers(once, inputs)) < 1e-6
    one, two = cut_of(once.module), cut_of(twice.module)
    assert one is not None
    assert two is not None
    assert (one.kept, one.shapes) == (two.kept, two.shapes)
    assert list(census(twice).heads) == list(census(once).heads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "phi3", "t5", "bert", "albert", "gpt-oss"])
def test_the_record_makes_the_cut_model_of_a_fresh_one(name: str, kind) -> None:
    model = hw.load(build(name), quiet=True)
    cut = cut_heads(model, kind(model))
    record = cut_of(cut.module)
    assert record is not None
    fresh = build(name)
    apply_cut(fresh, Cut.from_dict(record.as_dict()))
    assert not fresh.load_state_dict(cut.module.state_dict(), strict=True).missing_keys
    inputs = inputs_of(name)
    again = hw.load(fresh.eval(), quiet=True)
    assert off(answers(again, inputs), answers(cut, inputs)) == 0
    assert list(census(again).heads) == list(census(cut).heads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bert"])
def test_what_is_left_is_looked_into_and_ablated_by_its_old_ids(name: str, kind) -> None:
    model, inputs = hw.load(build(name), quiet=True), inputs_of(name)
    heads = kind(model)
    cut = cut_heads(model, heads)
    record = hw.look(cut, inputs)[0]
    with hw.ablate(model, heads):
        wanted = hw.look(model, inputs)[0]
    left = census(cut).heads
    for head in left:
        np.testing.assert_allclose(record.weights(head), wanted.weights(head), atol=1e-5)
    assert record.verified < 2e-5
    with hw.ablate(cut, left[0]):
        less = answers(cut, inputs)
    with hw.ablate(model, [*heads, left[0]]):
        assert off(less, answers(model, inputs)) < 1e-5


def test_the_model_given_stays_and_a_copy_of_the_cut_one_runs() -> None:
    model, inputs = hw.load(build("llama"), quiet=True), inputs_of("llama")
    before = answers(model, inputs)
    cut = cut_heads(model, "0.1, 1.*")
    assert off(answers(model, inputs), before) == 0
    assert cut_of(model.module) is None
    copied = hw.load(copy.deepcopy(cut.module), quiet=True)
    assert off(answers(copied, inputs), answers(cut, inputs)) == 0
    same = cut_heads(model, "0.1, 1.*", inplace=True)
    assert same is model
    assert off(answers(model, inputs), answers(cut, inputs)) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_proved_in_a_wider_copy(dtype: torch.dtype) -> None:
    model, inputs = hw.load(build("llama").to(dtype), quiet=True), inputs_of("llama")
    cut = cut_heads(model, "0.1, 1.0-2")
    assert {p.dtype for p in cut.module.parameters()} == {dtype}
    with hw.ablate(model, "0.1, 1.0-2"):
        assert off(answers(cut, inputs), answers(model, inputs)) < 0.05


@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_the_attention_implementation_can_change_after_the_cut(way: str) -> None:
    model, inputs = hw.load(build("t5", "sdpa"), quiet=True), inputs_of("t5")
    heads = uneven(model)
    cut = cut_heads(model, heads)
    cut.module.set_attn_implementation(way)
    with hw.ablate(model, heads):
        assert off(answers(cut, inputs)[:1], answers(model, inputs)[:1]) < 1e-5
