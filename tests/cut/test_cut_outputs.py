"""W_O made anew beside a cut, its bias with what is folded in, and torch's own attention."""

from __future__ import annotations

import pytest
import torch
from cut_help import answers, build, inputs_of, off, uneven, whole_layers
from tiny_models import ids_of
from torch import nn

import headwise as hw
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.census import census
from headwise.cut.example import example
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.record import Cut, apply_cut, cut_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.hub.channels import channels_of
from headwise.names import ConfigError, LayerId, ModelError, ShapeError


def maps(model: hw.Model, inputs) -> dict[LayerId, torch.Tensor]:
    """W_O of each layer, [head, v_dim, d_model]."""
    channels = channels_of(model, list(model.anatomy.layers), inputs)
    found = {}
    for run in census(model).runs:
        part = channels[run.layer.path].output
        weight = model.module.get_parameter(part.name).detach()
        weight = weight if part.axis == 0 else weight.T
        found[run.id] = weight.unflatten(0, (len(run.heads), -1))
    return found


@pytest.mark.parametrize("kind", [uneven, whole_layers])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5"])
def test_means_in_the_bias_are_mean_ablation(name: str, kind) -> None:
    model, inputs = hw.load(build(name), quiet=True), inputs_of(name)
    heads, weights = kind(model), maps(hw.load(build(name), quiet=True), inputs)
    means = mean_outputs(model, inputs)
    outputs = {}
    for run in census(model).runs:
        gone = [run.index(h) for h in run.heads if run.id.head(h) in heads]
        added = torch.einsum("hv,hvd->d", means[run.id][gone], weights[run.id][gone])
        outputs[run.id] = NewOutput(bias=added)
    cut = cut_heads(model, heads, outputs)
    with hw.ablate(model, heads, how="mean", texts=inputs):
        wanted = answers(model, inputs)
    assert off(answers(cut, inputs), wanted) < 1e-5
    record, fresh = cut_of(cut.module), build(name)
    assert record is not None
    apply_cut(fresh, record)
    fresh.load_state_dict(cut.module.state_dict())
    assert off(answers(hw.load(fresh, quiet=True), inputs), answers(cut, inputs)) == 0


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "albert"])
def test_a_new_output_map_is_that_map_with_the_heads_at_0(name: str) -> None:
    model, inputs = hw.load(build(name), quiet=True), inputs_of(name)
    heads, weights = uneven(model), maps(model, inputs)
    draw = torch.Generator().manual_seed(0)
    shared = torch.randn(weights[census(model).runs[0].id].shape, generator=draw)
    outputs = {
        id: NewOutput(weight=shared if name == "albert" else w * 2) for id, w in weights.items()
    }
    cut = cut_heads(model, heads, outputs)
    for run in census(model).runs:
        part = channels_of(model, [run.layer], inputs)[run.layer.path].output
        new = outputs[run.id].weight
        assert new is not None
        flat = new.flatten(0, 1)
        with torch.no_grad():
            model.module.get_parameter(part.name).copy_(flat if part.axis == 0 else flat.T)
    with hw.ablate(model, heads):
        assert off(answers(cut, inputs), answers(model, inputs)) < 1e-5


def test_a_layer_may_keep_its_heads_and_get_a_new_map() -> None:
    model, inputs = hw.load(build("llama"), quiet=True), inputs_of("llama")
    weight = maps(model, inputs)[LayerId("", 1)]
    outputs = {LayerId("", 1): NewOutput(weight=weight * 0, bias=torch.ones(24))}
    cut = cut_heads(model, "0.1", outputs)
    bias = cut.module.model.layers[1].self_attn.o_proj.bias
    assert bool((bias == 1).all())
    assert census(cut).heads == tuple(id for id in census(model).heads if str(id) != "0.1")


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        (
            NewOutput(weight=torch.zeros(6, 5, 24)),
            ShapeError,
            r"\[head, v_dim, d_model\]=\[6, 4, 24\]",
        ),
        (NewOutput(bias=torch.zeros(23)), ShapeError, r"\[d_model=24\], came \[23\]"),
    ],
)
def test_a_map_of_another_shape_is_refused(output: NewOutput, error, says: str) -> None:
    model = hw.load(build("llama"), quiet=True)
    with pytest.raises(error, match=says):
        cut_heads(model, "0.1", {LayerId("", 0): output}, inplace=True)
    assert cut_of(model.module) is None


def test_outputs_of_no_layer_and_of_shared_layers_are_refused() -> None:
    model = hw.load(build("llama"), quiet=True)
    with pytest.raises(ModelError, match="outputs names layer 7"):
        cut_heads(model, "0.1", {LayerId("", 7): NewOutput()})
    albert = hw.load(build("albert"), quiet=True)
    two = {LayerId("", i): NewOutput(bias=torch.full((24,), float(i))) for i in (0, 1)}
    with pytest.raises(ModelError, match="share one W_O"):
        cut_heads(albert, "*.1", two)


@pytest.mark.parametrize(
    "held", [{}, {"kept": 3}, {"kept": {"x": {}}, "shapes": {}, "numbers": {}}]
)
def test_a_record_of_another_form_or_model_is_refused(held: dict) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Cut.from_dict(held)
    for cut in (Cut({}, {"no.such.weight": (1,)}, {}), Cut({}, {}, {"nowhere": {"x": 1}})):
        with pytest.raises(ConfigError, match="of another model"):
            apply_cut(build("llama"), cut)


class Reader(nn.Module):
    """Ids through torch's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, input_ids: torch.Tensor, src_key_padding_mask: torch.Tensor | None = None):
        return self.encoder(self.embed(input_ids), src_key_padding_mask=src_key_padding_mask)


TORCH = {
    "reader": lambda: Reader(),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 32), 2),
    "no-bias": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, bias=False), 2),
    "both": lambda: nn.Transformer(24, 4, 2, 2, 32, batch_first=True),
    "alone": lambda: nn.MultiheadAttention(24, 4, kdim=24, vdim=24, add_bias_kv=True),
}


@pytest.mark.parametrize("kind", [uneven, whole_layers])
@pytest.mark.parametrize("name", TORCH)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_own_attention_is_cut(name: str, kind) -> None:
    torch.manual_seed(0)
    model = hw.load(TORCH[name]().eval(), quiet=True)
    heads = kind(model)
    if name == "alone" and kind is whole_layers:
        heads = heads[:-1]
    cut = cut_heads(model, heads)
    inputs = example(model)
    found = answers(cut, inputs)
    with hw.ablate(model, heads):
        assert off(found[:1], answers(model, inputs)[:1]) < 1e-5
    assert list(census(cut).heads) == [id for id in census(model).heads if id not in heads]
    record, fresh = cut_of(cut.module), TORCH[name]().eval()
    assert record is not None
    apply_cut(fresh, record)
    fresh.load_state_dict(cut.module.state_dict())
    assert off(answers(hw.load(fresh, quiet=True), inputs), found) == 0


@torch.no_grad()
def test_torchs_padded_batches_read_as_alone_after_a_cut() -> None:
    torch.manual_seed(0)
    model = hw.load(Reader().eval(), quiet=True)
    cut = cut_heads(model, "1.0, 1.2").module
    ids = torch.stack(ids_of(6, 6))
    hidden = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    padded = cut(ids, hidden)[1, :4]
    torch.testing.assert_close(padded, cut(ids[1:, :4])[0], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_mask_of_all_heads_is_read_by_those_that_are_left() -> None:
    torch.manual_seed(0)
    whole = nn.MultiheadAttention(24, 4, batch_first=True).eval()
    model = hw.load(whole, quiet=True)
    cut, x = cut_heads(model, "0.1").module, torch.randn(2, 5, 24)
    mask = torch.randn(2, 4, 5, 5)
    found = cut(x, x, x, attn_mask=mask.flatten(0, 1))[0]
    of_kept = cut(x, x, x, attn_mask=mask[:, [0, 2, 3]].flatten(0, 1))[0]
    whole.out_proj.weight[:, 6:12] = 0
    wanted = whole(x, x, x, attn_mask=mask.flatten(0, 1))[0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(of_kept, wanted, rtol=0, atol=1e-5)
