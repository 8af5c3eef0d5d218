"""Models of transformers through the bridge: what is recorded is what their own eager attention gives."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers
from tiny_models import (
    TABLE,
    assert_record_is,
    build,
    eager_weights,
    ids_of,
    inputs_of,
    padded,
    seeded,
)

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.hub.routes.bridge import routed
from headwise.names import ModelError

WRITERS = ["t5", "bart"]
LENGTHS = (9, 4, 6)


@pytest.mark.parametrize("name", ["llama", "mistral-window", "qwen3", "gemma2", "gpt-oss", "phi3"])
def test_left_padded_rope_equals_the_left_padded_eager_run(name: str) -> None:
    rows = ids_of(*LENGTHS)
    batch = padded(rows, "left")
    records = hw.look(hw.load(build(name)), batch)
    eager = eager_weights(build(name), batch)
    for i, (row, record) in enumerate(zip(rows, records, strict=True)):
        real = {s: [w[:, :, -len(row) :, -len(row) :] for w in ws] for s, ws in eager.items()}
        assert_record_is(record, real, i)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral-window"])
def test_given_positions_leave_the_batch_as_it_is(name: str) -> None:
    rows = ids_of(*LENGTHS)
    batch = padded(rows, "left")
    batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp_min(0)
    eager = eager_weights(build(name), batch)
    records = hw.look(hw.load(build(name)), batch)
    for i, (row, record) in enumerate(zip(rows, records, strict=True)):
        assert [token.id for token in record.tokens] == row.tolist()
        real = {s: [w[:, :, -len(row) :, -len(row) :] for w in ws] for s, ws in eager.items()}
        assert_record_is(record, real, i)
        assert record.verified < 1e-5


def test_streams_of_an_encoder_decoder_and_one_stack() -> None:
    assert hw.load(build("t5")).anatomy.streams == ("encoder", "decoder", "cross")
    assert hw.load(build("llama")).anatomy.streams == ("",)


@pytest.mark.parametrize("name", WRITERS)
def test_without_a_target_the_model_writes_one(name: str) -> None:
    (record,) = hw.look(hw.load(build(name)), {"input_ids": ids_of(6)[0][None]})
    cross = record.layers[hw.HeadId("cross", 1, 0).layer_id]
    written = torch.tensor([[t.id for t in cross.queries.tokens]])
    again = build(name).generate(
        input_ids=ids_of(6)[0][None],
        max_new_tokens=63 if name == "bart" else 64,
        do_sample=False,
        num_beams=1,
    )
    assert torch.equal(written, again)


@pytest.mark.parametrize("name", WRITERS)
def test_written_targets_of_unequal_lengths(name: str) -> None:
    """A batch writes on until its last row ends; what is padded behind the others is left out."""
    rows = ids_of(*LENGTHS)
    model = build(name)
    model.generation_config.eos_token_id = list(range(5, 40, 7))
    loaded = hw.load(model)
    records = hw.look(loaded, padded(rows, "left"))
    lengths = set()
    for row, record in zip(rows, records, strict=True):
        (alone,) = hw.look(loaded, {"input_ids": row[None]})
        own, same = (r.layer_of(hw.HeadId("decoder", 0, 0)) for r in (record, alone))
        assert own.queries.tokens == same.queries.tokens
        for head in record.heads():
            np.testing.assert_allclose(record.weights(head), alone.weights(head), atol=1e-5)
        lengths.add(len(own.queries.tokens))
    assert len(lengths) > 1


def test_a_record_is_of_the_run_without_dropout() -> None:
    """A model in training mode is looked at in eval mode, and is in training mode again afterwards."""
    inputs = inputs_of("bert")
    model = build("bert").train()
    model.encoder.layer[0].eval()
    modes = [part.training for part in model.modules()]
    (record,) = hw.look(hw.load(model), inputs)
    assert [part.training for part in model.modules()] == modes
    assert_record_is(record, eager_weights(build("bert"), inputs), 0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5", "vit"])
def test_looking_never_changes_the_model(name: str, attention: str) -> None:
    inputs, model = inputs_of(name), build(name, attention)
    with torch.no_grad():
        before = model(**inputs)[0]
    attributes = [set(part.__dict__) for part in model.modules()]
    config = copy.deepcopy(model.config.to_dict())
    hw.look(hw.load(model), inputs)
    assert model.config._attn_implementation == attention
    assert model.config.to_dict() == config
    assert [set(part.__dict__) for part in model.modules()] == attributes
    with torch.no_grad():
        assert torch.equal(model(**inputs)[0], before)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_pass_that_is_looked_at_is_the_models_own(attention: str) -> None:
    inputs, model = inputs_of("llama"), build("llama", attention)
    loaded = hw.load(model)
    with torch.no_grad():
        before = model(**inputs).logits
    with loaded.open(), tapped({loaded.anatomy.layers[0].module: Tap((lambda *_: None,))}):
        out = loaded.run({**inputs, "logits_to_keep": 0})
        least = loaded.run(inputs)
    assert torch.equal(out.logits, before)
    assert least.logits.shape[1] == 1  # no logits are made that nobody asked for
    assert out.past_key_values is None  # nothing is kept for a next token


def test_an_exception_in_the_middle_puts_everything_back() -> None:
    model = build("llama").train()
    attributes = [set(part.__dict__) for part in model.modules()]

    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    handle = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(stop)
    with pytest.raises(StopError):
        hw.look(hw.load(model), inputs_of("llama"))
    handle.remove()
    assert model.config._attn_implementation == "sdpa"
    assert [set(part.__dict__) for part in model.modules()] == attributes
    assert all(part.training for part in model.modules())


def test_routed_within_routed() -> None:
    model, inputs = build("llama"), inputs_of("llama")
    with torch.no_grad():
        before = model(**inputs).logits
        with routed(model), routed(model):
            assert torch.equal(model(**inputs).logits, before)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kernel", ["flash_attention_2", "flex_attention"])
def test_kernels_with_masks_of_another_form_are_stood_in_for(kernel: str) -> None:
    """Their own masks are of another form than the one that is read; sdpa computes the same."""
    rows = ids_of(*LENGTHS)
    model = build("llama")
    model.config._attn_implementation_internal = kernel
    records = hw.look(hw.load(model), padded(rows, "left"))
    assert model.config._attn_implementation == kernel
    for row, record in zip(rows, records, strict=True):
        assert_record_is(record, eager_weights(build("llama"), {"input_ids": row[None]}), 0)


OUTPUT = {
    "llama": "self_attn.o_proj",
    "gpt2": "c_proj",
    "bert": "0.attention.output.dense",
    "gpt-oss": "self_attn.o_proj",
    "gemma2": "self_attn.o_proj",
}


@pytest.mark.parametrize("attention", [None, "eager"])
@pytest.mark.parametrize("name", OUTPUT)
def test_a_gate_is_the_heads_slice_of_the_output_projections_input(
    name: str, attention: str | None
) -> None:
    inputs = inputs_of(name)
    loaded = hw.load(build(name, attention))
    layer = loaded.anatomy.layers[0]
    parts = dict(loaded.module.named_modules())
    projection = next(
        module
        for path, module in parts.items()
        if path.endswith(OUTPUT[name]) and "mlp" not in path and ".0." in path
    )
    width = loaded.module.config.num_attention_heads
    size = getattr(loaded.module.config, "head_dim", None) or 24 // width
    gate = torch.linspace(-1, 1, width)
    gate[2] = 0

    def cut(_: object, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (arguments[0] * gate.repeat_interleave(size), *arguments[1:])

    def hidden() -> torch.Tensor:
        return loaded.run(inputs)[0]

    with loaded.open(), tapped({layer.module: Tap(gate=gate)}):
        gated = hidden()
    with loaded.open(), tapped({layer.module: Tap(gate=torch.ones(width))}):
        same = hidden()
    plain = hidden()
    handle = projection.register_forward_pre_hook(cut)
    cut_by_hand = hidden()
    handle.remove()
    torch.testing.assert_close(gated, cut_by_hand, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(same, plain, atol=2e-5, rtol=1e-5)
    assert (gated - plain).abs().max() > 1e-2


def test_a_model_that_does_not_run_its_heads_is_an_error() -> None:
    """No silent no-op: a record without heads is none."""

    class Skips(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = hw.nn.MultiHeadAttention(8, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return ids

    with pytest.raises(ModelError, match=r"no head of Skips fired.*\(1 found\)"):
        hw.look(hw.load(Skips()), {"input_ids": torch.ones(1, 3, dtype=torch.long)})


def test_a_float64_model_verifies_in_float64() -> None:
    (record,) = hw.look(hw.load(build("llama").double()), inputs_of("llama"))
    assert record.verified < 1e-12


def test_a_custom_additive_mask_is_read_as_mask_and_bias() -> None:
    """A 4-D mask of one's own: the lowest number hides, the rest is a bias."""
    inputs = inputs_of("llama")
    n = inputs["input_ids"].shape[1]
    low = torch.finfo(torch.float32).min
    mask = torch.zeros(1, 1, n, n).masked_fill(torch.ones(n, n).tril() == 0, low)
    mask = mask + torch.randn(1, 1, n, n).tril()
    inputs["attention_mask"] = mask
    (record,) = hw.look(hw.load(build("llama")), inputs)
    assert_record_is(record, eager_weights(build("llama"), inputs), 0)
    assert len(record.tokens) == n
    assert not record.visible("0.0")[0, 1:].any()


def test_sinks_of_the_record_are_its_own() -> None:
    model, inputs = build("gpt-oss"), inputs_of("gpt-oss")
    (record,) = hw.look(hw.load(model), inputs)
    before = record.weights("0.0")
    with torch.no_grad():
        model.model.layers[0].self_attn.sinks.fill_(9.0)
    np.testing.assert_array_equal(record.weights("0.0"), before)
    assert before.sum(1).max() < 1  # the sink takes a share away


def test_encoder_decoder_of_two_models() -> None:
    """The streams of transformers' EncoderDecoderModel, whose two halves are whole models."""
    encoder = transformers.BertConfig(**TABLE["bert"].fields)
    decoder = transformers.BertConfig(
        **TABLE["bert"].fields, is_decoder=True, add_cross_attention=True, bos_token_id=1
    )
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = seeded(transformers.EncoderDecoderModel, both)
    inputs = {"input_ids": ids_of(7)[0][None], "decoder_input_ids": ids_of(4, seed=2)[0][None]}
    (record,) = hw.look(hw.load(model), inputs)
    assert hw.load(model).anatomy.streams == ("encoder", "decoder", "cross")
    assert_record_is(record, eager_weights(model, inputs), 0)
