"""Attention written out by hand is followed: gates, meters, users' own modules, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import transformers
from tiny_fields import BART, VISION, VOCAB
from tiny_models import (
    assert_record_is,
    build,
    eager_of,
    eager_weights,
    ids_of,
    inputs_of,
    padded,
    seeded,
)
from tiny_written import WRITTEN
from torch import Tensor, nn
from written_help import Cross, Fused, Model, Textbook, gated, outputs, own_modules

import headwise as hw
from headwise.core.scores import Scores, mix
from headwise.core.taps import Tap, tapped
from headwise.names import ModelError

OUT = ("dense", "o", "out_proj", "c_proj", "out_lin", "o_proj", "projection")
"""What W_O is called: within the attention module, or beside it."""

PROPHET = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
}


def w_o(model: nn.Module, path: str) -> nn.Module | None:
    """W_O of the attention at this path; None where it does not say which."""
    modules = dict(model.named_modules())
    for home in (path, f"{path.rpartition('.')[0]}.output", path.rpartition(".")[0]):
        inside = modules[home].named_children() if home in modules else ()
        found = [child for name, child in inside if name in OUT]
        if len(found) == 1:
            return found[0]
    return None


@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"xlnet"}))
def test_a_gate_is_zeroing_the_heads_slice_of_what_w_o_reads(name: str) -> None:
    inputs, loaded = inputs_of(name), hw.load(build(name))
    layer = loaded.anatomy.layers[-1]
    projection = w_o(loaded.module, layer.path)
    assert projection is not None
    record = hw.look(loaded, inputs)[0].layers[layer.id]
    heads, dim = record.scores.shape[1], projection_width(projection) // record.scores.shape[1]
    gate = torch.ones(heads)
    gate[1] = 0.0
    gate[2] = 0.5
    spread = gate.repeat_interleave(dim)
    with loaded.open(), tapped({layer.module: Tap(gate=gate)}):
        mine = outputs(loaded, inputs)
    handle = projection.register_forward_pre_hook(lambda _, args: (args[0] * spread, *args[1:]))
    own, _ = outputs(loaded, inputs), handle.remove()
    torch.testing.assert_close(mine, own, atol=1e-5, rtol=1e-5)
    assert (mine - outputs(loaded, inputs)).abs().max() > 1e-4


def projection_width(projection: nn.Module) -> int:
    """Channels that W_O reads."""
    weight = projection.weight
    return int(weight.shape[0] if type(projection).__name__ == "Conv1D" else weight.shape[1])


def test_a_gate_of_ones_and_nobody_looking_change_nothing() -> None:
    inputs, loaded = inputs_of("bloom"), hw.load(build("bloom"))
    plain = outputs(loaded, inputs)
    with loaded.open():
        assert torch.equal(plain, outputs(loaded, inputs))
        assert torch.equal(plain, gated(loaded, inputs, torch.ones(4)))
    assert torch.equal(plain, outputs(loaded, inputs))
    assert not any("forward" in module.__dict__ for module in loaded.module.modules())


def test_a_forward_of_the_modules_own_is_put_back() -> None:
    """accelerate and others hang theirs on a module."""
    loaded = hw.load(Model(Fused()))
    layer = loaded.anatomy.layers[0].module
    plain, calls = layer.forward, []
    layer.forward = mine = lambda x: calls.append(x) or plain(x)
    hw.look(loaded, {"input_ids": torch.tensor([[1, 2, 3]])})
    assert layer.forward is mine
    assert len(calls) == 1


def test_a_gate_has_gradients() -> None:
    loaded, gate = hw.load(build("mpnet")), torch.ones(4, requires_grad=True)
    layer = loaded.anatomy.layers[0]
    with loaded.open(), tapped({layer.module: Tap(gate=gate)}):
        loaded.module(**inputs_of("mpnet"))[0].square().sum().backward()
    assert gate.grad is not None
    assert (gate.grad.abs() > 0).all()


def test_bloom_masks_are_rules_and_its_alibi_a_bias() -> None:
    rows = ids_of(9, 4)
    records = hw.look(hw.load(build("bloom")), padded(rows, "left"))
    for record in records:
        for layer in record.layers.values():
            assert repr(layer.scores.mask) == "causal()"
            assert layer.scores.bias is not None
            assert layer.scores.q.shape[1] == 4


def test_falcon_with_alibi_under_its_own_eager_attention() -> None:
    inputs = inputs_of("falcon")
    (record,) = hw.look(hw.load(build("falcon", "eager", alibi=True)), inputs)
    assert_record_is(record, eager_of("falcon", inputs, build("falcon", "eager", alibi=True)), 0)
    assert hw.look(hw.load(build("falcon", alibi=True)), inputs)[0].verified < 1e-5


def test_falcons_groups_are_its_kv_heads() -> None:
    (record,) = hw.look(hw.load(build("falcon")), inputs_of("falcon"))
    assert all(layer.scores.k.shape[1] == 1 for layer in record.layers.values())
    assert all(layer.scores.q.shape[1] == 4 for layer in record.layers.values())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    model = build("bloom").to(dtype)
    (record,) = hw.look(hw.load(model), inputs_of("bloom"))
    assert record.verified < 0.05


@pytest.mark.parametrize("layer", own_modules())
def test_a_module_of_ones_own(layer: nn.Module) -> None:
    """Every way of writing the same attention gives the same record, and the gate the same cut."""
    torch.manual_seed(0)
    model = Model(layer)
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0, 0.4)
    inputs = {"input_ids": torch.tensor([[1, 2, 3, 4, 5, 6], [6, 7, 8, 9, 1, 2]])}
    loaded = hw.load(model)
    first, second = hw.look(loaded, inputs)
    reference = Model(Textbook()).eval()
    reference.load_state_dict(model.state_dict())
    with torch.no_grad():
        reference(inputs["input_ids"])
    pattern = reference.layers[1].pattern
    for record, row in ((first, 0), (second, 1)):
        assert list(map(str, record.heads())) == [f"{i}.{h}" for i in range(2) for h in range(3)]
        assert record.verified < 1e-5
        for head in range(3):
            mine = torch.tensor(record.weights(f"1.{head}"))
            torch.testing.assert_close(mine, pattern[row, head].double(), atol=1e-5, rtol=0)
    assert repr(next(iter(first.layers.values())).scores.mask) == "causal()"
    gate = torch.tensor([1.0, 0.0, 1.0])
    mine = gated(loaded, inputs, gate)
    with torch.no_grad():
        for layer_ in model.layers:
            layer_.out.weight[:, 4:8] = 0
    torch.testing.assert_close(mine, outputs(loaded, inputs), atol=1e-5, rtol=0)


def test_a_meter_takes_the_place_of_the_result() -> None:
    loaded, inputs = hw.load(Model(Fused())), {"input_ids": torch.tensor([[1, 2, 3]])}

    def meter(scores: Scores, v: Tensor) -> Tensor:
        return 2 * mix(scores.rows(), v)

    layers = [layer.module for layer in loaded.anatomy.layers]
    with loaded.open(), tapped({layers[1]: Tap(meter=meter)}):
        mine = outputs(loaded, inputs)
    with loaded.open(), tapped({layers[1]: Tap(gate=torch.full((3,), 2.0))}):
        torch.testing.assert_close(mine, outputs(loaded, inputs))


def test_cross_attention_of_ones_own() -> None:
    torch.manual_seed(0)
    model = hw.load(Cross())
    assert [str(layer.id) for layer in model.anatomy.layers] == ["decoder.0", "cross.0"]
    ids, memory = torch.tensor([[1, 2, 3]]), torch.randn(1, 7, 12)
    (record,) = hw.look(model, {"input_ids": ids, "memory": memory})
    assert record.weights("cross.0.1").shape == (3, 7)
    assert record.weights("decoder.0.1").shape == (3, 3)
    assert record.verified < 1e-5
    assert [t.text for t in record.layer_of(hw.HeadId("cross", 0, 0)).keys.tokens] == [*"0123456"]


class _Odd(Textbook):
    """Written out, and something else in between."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.kind == "sort":
            scores = scores.sort(-1).values
        if self.kind == "zeroed":
            scores = scores * torch.ones(x.shape[1], x.shape[1]).tril()
        pattern = scores.softmax(1 if self.kind == "axis" else -1)
        if self.kind == "renormalised":
            pattern = pattern / pattern.sum(-2, keepdim=True)
        if self.kind == "unused":
            return self.join(torch.cumprod(pattern, -1)[..., :1] * v)
        z = pattern @ (pattern if self.kind == "squared" else v)
        if self.kind == "twice":
            z = z + (q @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.join(z @ v if self.kind == "squared" else z)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("sort", r"does not follow \(sort\)"),
        ("zeroed", r"does not follow \(softmax of scores that are 0 in places\)"),
        ("axis", r"does not follow \(softmax over another axis than the keys\)"),
        ("renormalised", r"does not follow \(div\)"),
        ("unused", r"does not follow \(the pattern is not multiplied with values\)"),
        ("squared", r"does not follow \(matmul of the pattern with other than values\)"),
        ("twice", r"attends more than once in one forward"),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(kind: str, message: str) -> None:
    torch.manual_seed(0)
    loaded = hw.load(Model(_Odd(kind)))
    with pytest.raises(ModelError, match=f"_Odd .*{message}") as caught:
        hw.look(loaded, {"input_ids": torch.tensor([[1, 2, 3, 4]])})
    assert "\n" not in str(caught.value)
    assert not any("forward" in module.__dict__ for module in loaded.module.modules())
    outputs(loaded, {"input_ids": torch.tensor([[1, 2, 3, 4]])})  # as before


def test_a_reading_that_does_not_give_the_modules_own_result_is_refused() -> None:
    class Sly(Textbook):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.split(x)
            scores = q @ k.transpose(-2, -1)
            seen = scores.view(scores.shape)
            scores.detach().numpy()[:] = 0.0  # behind torch's back
            return self.join(seen.softmax(-1) @ v)

    torch.manual_seed(0)
    with pytest.raises(ModelError, match=r"Sly cannot be looked into: what was read of its atten"):
        hw.look(hw.load(Model(Sly())), {"input_ids": torch.tensor([[1, 2, 3, 4]])})


def test_pieces_of_a_long_text_are_refused() -> None:
    """CANINE attends within pieces of 128 characters; a text within one piece is seen whole."""
    fields = {**WRITTEN["mpnet"].fields, "local_transformer_stride": 4, "downsampling_rate": 2}
    chunks = {"attend_to_chunk_width": 16, "attend_from_chunk_width": 16}
    config = transformers.CanineConfig(
        **fields, **chunks, num_hash_functions=2, num_hash_buckets=40
    )
    loaded = hw.load(seeded(transformers.CanineModel, config))
    with pytest.raises(ModelError, match=r"CanineSelfAttention attends within pieces of its input"):
        hw.look(loaded, {"input_ids": ids_of(32)[0][None]})


@pytest.mark.parametrize(
    ("name", "streams"),
    [("LED", {"decoder", "cross"}), ("ProphetNet", {"encoder", "cross"})],
)
def test_a_model_of_which_a_part_cannot_be_followed(name: str, streams: set[str], capsys) -> None:
    """The streams are called what they would be called if all were seen."""
    fields = {**BART, "attention_window": 4} if name == "LED" else PROPHET
    config = getattr(transformers, f"{name}Config")(**fields)
    loaded = hw.load(seeded(getattr(transformers, f"{name}Model"), config))
    assert "are left out of every record" in capsys.readouterr().err
    inputs = {"input_ids": ids_of(8)[0][None], "decoder_input_ids": ids_of(5)[0][None]}
    (record,) = hw.look(loaded, inputs)
    assert {id.stream for id in record.layers} == streams
    assert record.verified < 1e-5


def test_layers_of_both_kinds_in_one_model() -> None:
    """GIT's image tower goes through the interface, its text stack writes attention out."""
    fields = {**WRITTEN["mpnet"].fields, "vision_config": VISION}
    loaded = hw.load(seeded(transformers.GitModel, transformers.GitConfig(**fields)))
    inputs = {"input_ids": ids_of(6)[0][None], "pixel_values": torch.randn(1, 3, 12, 12)}
    plain = outputs(loaded, inputs)
    (record,) = hw.look(loaded, inputs)
    assert {str(id) for id in record.layers} == {
        f"{tower}.{i}" for tower in ("image_encoder", "encoder") for i in range(2)
    }
    assert record.verified < 1e-5
    assert torch.equal(plain, outputs(loaded, inputs))
    own = eager_weights(loaded.module, inputs)[""]
    mine = torch.tensor(record.weights("encoder.1.2"))
    torch.testing.assert_close(mine, own[1][0, 2].double(), atol=1e-5, rtol=0)


def test_a_softmax_that_is_no_attention_is_let_be() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(12, 5)), nn.Parameter(torch.randn(5, 12))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.a).softmax(-1) @ self.b

    class Routed(Model):
        def forward(self, ids: Tensor) -> Tensor:
            return self.router(super().forward(ids))

    model = Routed(Fused())
    model.router = Router()
    (record,) = hw.look(hw.load(model), {"input_ids": torch.tensor([[1, 2, 3, 4]])})
    assert len(record.layers) == 2


def test_a_module_that_holds_attention_is_not_one_itself() -> None:
    """Nor is what runs through the interface followed as well."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = build("bert")

        def forward(self, input_ids: Tensor) -> Tensor:
            x = self.inner(input_ids)[0]
            return F.softmax(x @ x.transpose(-1, -2), -1) @ x

    loaded = hw.load(Outer())
    (record,) = hw.look(loaded, {"input_ids": ids_of(6)[0][None]})
    assert len(record.layers) == 2
    assert loaded.anatomy.unseen == {"": "Outer"}
