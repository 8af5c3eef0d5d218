"""ablate: what stands in, that it adds up, ends, and refuses what is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.core import masks
from headwise.cut.ablating.ablating import factors_of
from headwise.cut.ablating.gathering import mean_outputs, output_pool
from headwise.cut.ablating.standing_in import check_how
from headwise.cut.census import census
from headwise.cut.selecting import selected
from headwise.names import ConfigError, HeadError, LayerId, ModelError, TextError
from headwise.nn import Decoder, EncoderDecoder, MultiHeadAttention, TransformerConfig

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

IDS = torch.arange(1, 21).view(2, 10)


@pytest.fixture
def decoder() -> hw.Model:
    """Three layers of four heads on two KV heads."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=50, d_model=24, num_layers=3, num_heads=4, num_kv_heads=2, d_ff=32
    )
    module = Decoder(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
    return hw.load(module)


def logits(model: hw.Model, ids: Tensor = IDS) -> Tensor:
    with torch.no_grad():
        made = model.outputs({"input_ids": ids})
    return getattr(made, "logits", made)


def attention(model: hw.Model, layer: int) -> MultiHeadAttention:
    found = model.anatomy.layers[layer].module
    assert isinstance(found, MultiHeadAttention)
    return found


def test_zero_is_a_head_without_its_rows_of_w_o(decoder: hw.Model) -> None:
    w_o = attention(decoder, 1).w_o.weight
    kept = w_o.detach().clone()
    with hw.ablate(decoder, "1.2"):
        came = logits(decoder)
    with torch.no_grad():
        w_o[:, 12:18] = 0
        wanted = logits(decoder)
        w_o.copy_(kept)
    torch.testing.assert_close(came, wanted, atol=1e-5, rtol=0)
    assert (came - logits(decoder)).abs().max() > 1e-3


def test_the_mean_stands_in(decoder: hw.Model) -> None:
    """Mean ablation of a whole layer adds the same to every token: W_O of the mean outputs, and the bias."""
    texts = [{"input_ids": IDS}]
    added = []
    w_o = attention(decoder, 0).w_o
    handle = w_o.register_forward_hook(lambda m, i, out: added.append(out))
    with hw.ablate(decoder, "0.*", how="mean", texts=texts):
        logits(decoder, IDS.flip(0))
    handle.remove()
    wanted = w_o(mean_outputs(decoder, texts)[LayerId("", 0)].flatten())
    torch.testing.assert_close(added[-1], wanted.expand_as(added[-1]), atol=1e-5, rtol=0)


def test_means_leave_out_padding(decoder: hw.Model) -> None:
    alone = mean_outputs(decoder, [IDS[0], IDS[1, :4]])
    rows = torch.stack([IDS[0], IDS[1].clone()])
    mask = torch.ones_like(rows)
    mask[1, 4:] = 0
    padded = mean_outputs(decoder, [{"input_ids": rows, "attention_mask": mask}])
    for id, mean in alone.items():
        torch.testing.assert_close(padded[id], mean, atol=1e-5, rtol=0)


def test_resampling_draws_from_the_pool(decoder: hw.Model) -> None:
    pool = output_pool(decoder, IDS)[LayerId("", 2)]
    given: list[Tensor] = []
    w_o = attention(decoder, 2).w_o
    handle = w_o.register_forward_pre_hook(lambda m, args: given.append(args[0]))
    with hw.ablate(decoder, "2.1", how="resample", texts=IDS, seed=3):
        logits(decoder)
        logits(decoder)
    handle.remove()
    heads = [x.view(2, 10, 4, 6) for x in given[-2:]]
    for z in heads[0][:, :, 1].flatten(0, 1):
        assert (pool[:, 1] - z).abs().amax(1).min() < 1e-6
    assert not torch.equal(heads[0][:, :, 1], heads[1][:, :, 1])  # drawn anew
    assert torch.equal(heads[0][:, :, 0], heads[1][:, :, 0])  # other heads go on
    with hw.ablate(decoder, "2.1", how="resample", texts=IDS, seed=3):
        first = logits(decoder)
    with hw.ablate(decoder, "2.1", how="resample", texts=IDS, seed=3):
        assert torch.equal(logits(decoder), first)


def test_uniform_is_the_mean_of_what_it_may_see() -> None:
    torch.manual_seed(0)
    block = MultiHeadAttention(16, 4, 2).eval()
    model = hw.load(_Causal(block))
    x = torch.randn(1, 7, 16)
    given: list[Tensor] = []
    block.w_o.register_forward_pre_hook(lambda m, args: given.append(args[0]))
    with hw.ablate(model, "*", how="uniform", inputs={"x": x}), torch.no_grad():
        model.module(x)
    values = block.w_qkv(x)[..., -8:].view(1, 7, 2, 4).repeat_interleave(2, 2)
    wanted = values.cumsum(1) / torch.arange(1, 8).view(1, 7, 1, 1)
    torch.testing.assert_close(given[-1].view_as(wanted), wanted, atol=1e-5, rtol=0)


class _Causal(nn.Module):
    def __init__(self, block: MultiHeadAttention) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x, masks.causal())


def test_factors_lie_between(decoder: hw.Model) -> None:
    """The layer's output goes along the line from ablated to whole."""
    added: list[Tensor] = []
    attention(decoder, 2).w_o.register_forward_hook(lambda m, i, out: added.append(out.detach()))
    ends = []
    for factor in (0.0, 0.25, 1.0):
        with hw.ablate(decoder, {"2.0": factor, "2.3": 1.0}, how="mean", texts=IDS):
            logits(decoder)
        ends.append(added[-1])
    none, quarter, whole = ends
    torch.testing.assert_close(quarter, 0.75 * none + 0.25 * whole, atol=1e-5, rtol=0)


def test_ablations_add_up_and_end(decoder: hw.Model) -> None:
    whole = logits(decoder)
    with hw.ablate(decoder, "0.1, 2.2"):
        both = logits(decoder)
    with hw.ablate(decoder, "0.1"), hw.ablate(decoder, "2.2"):
        torch.testing.assert_close(logits(decoder), both)
    with pytest.raises(ZeroDivisionError), hw.ablate(decoder, "0.1"):
        1 / 0  # noqa: B018
    assert torch.equal(logits(decoder), whole)


def test_looking_and_profiling_see_the_ablated_model(decoder: hw.Model) -> None:
    """Layers above look elsewhere, and what is recorded is still the model's own."""
    ids = {"input_ids": IDS[:1]}
    (before,) = hw.look(decoder, ids)
    with hw.ablate(decoder, "0.*"):
        (record,) = hw.look(decoder, ids)
        table = hw.profile(decoder, [ids])
    assert record.verified < 1e-5
    np_before, np_after = before.pattern("2.0").values, record.pattern("2.0").values
    assert abs(np_before - np_after).max() > 1e-3
    assert abs(before.pattern("0.0").values - record.pattern("0.0").values).max() == 0
    plain = hw.profile(decoder, [ids])
    assert abs(table["entropy"].sel(layer=2) - plain["entropy"].sel(layer=2)).max() > 1e-4


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt"])
def test_generating_with_a_cache_under_ablation(name: str) -> None:
    model = hw.load(build(name))
    ids = IDS[:1, :5]
    with hw.ablate(model, "0.1, 1.0"):
        cached = model.module.generate(ids, max_new_tokens=6, do_sample=False, use_cache=True)
        plain = model.module.generate(ids, max_new_tokens=6, do_sample=False, use_cache=False)
        wanted = model.module(cached).logits[0, 4:-1].argmax(-1)
    assert torch.equal(cached, plain)
    assert torch.equal(wanted, cached[0, 5:])


def test_in_training_a_zeroed_head_learns_nothing(decoder: hw.Model) -> None:
    decoder.module.train()
    with hw.ablate(decoder, "1.2"):
        decoder.outputs({"input_ids": IDS}).square().mean().backward()
    grad = attention(decoder, 1).w_qkv.weight.grad
    assert grad is not None
    assert grad[12:18].abs().max() == 0
    assert grad[:12].abs().max() > 0


def test_gates_have_the_gradient_of_the_loss(decoder: hw.Model) -> None:
    gates = hw.Gates(decoder, "1.*", how="mean", texts=IDS)
    target = IDS.flip(1)

    def loss() -> Tensor:
        out = decoder.outputs({"input_ids": IDS})
        return nn.functional.cross_entropy(out.flatten(0, 1), target.flatten())

    with gates.applied():
        loss().backward()
    for i, head in enumerate(gates.heads):
        ends = []
        for step in (-1e-2, 1e-2):
            with hw.ablate(decoder, {head: 1 + step}, how="mean", texts=IDS), torch.no_grad():
                ends.append(float(loss()))
        assert gates.value.grad is not None
        slope = (ends[1] - ends[0]) / 2e-2
        assert float(gates.value.grad[i]) == pytest.approx(slope, rel=2e-2, abs=1e-4)


def test_a_compiled_model_is_ablated_too() -> None:
    module = build("llama")
    inputs = {"input_ids": IDS}
    compiled = hw.load(torch.compile(module, backend="eager"))
    with torch.no_grad(), hw.ablate(hw.load(module), "0.1"):
        wanted = module(**inputs).logits
    with torch.no_grad():
        whole = compiled.module(**inputs).logits
        with hw.ablate(compiled, "0.1"):
            came = compiled.module(**inputs).logits
        after = compiled.module(**inputs).logits
    torch.testing.assert_close(came, wanted)
    torch.testing.assert_close(after, whole)
    assert (came - whole).abs().max() > 1e-3


def test_one_run_of_a_shared_layer_alone() -> None:
    model = hw.load(build("albert"))
    runs = census(model).runs
    assert len(runs) > 1
    assert len({run.layer.module for run in runs}) == 1
    seen: list[Tensor] = []
    dense = runs[0].layer.module.dense
    handle = dense.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    dim = runs[1].v_dim
    with hw.ablate(model, "1.2") as ablation:
        logits_of(model)
        logits_of(model)  # counted anew
    handle.remove()
    zeroed = [bool((x[..., 2 * dim : 3 * dim] == 0).all()) for x in seen]
    one = [False, True] + [False] * (len(runs) - 2)
    assert zeroed == one + one
    assert ablation.fired.times == {runs[1].id: 2}


def logits_of(model: hw.Model) -> None:
    with torch.no_grad():
        model.module(input_ids=IDS[:1])


def test_streams_of_an_encoder_decoder() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=50, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    model = hw.load(EncoderDecoder(config))
    batch = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    with torch.no_grad():
        whole = model.outputs(batch)
        for heads in ("encoder.0.1", "cross.*", "decoder.1.0-2"):
            with hw.ablate(model, heads):
                assert (model.outputs(batch) - whole).abs().max() > 1e-4
    assert len(census(model).heads) == 24


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ("1.4", "1.4 is not there: layer 1 has the heads 0 to 3"),
        ("3.0", "3.0 is not there: the layers are 0 to 2"),
        ("1.2-9", "1.2-9 is not there: layer 1 has the heads 0 to 3"),
        ("1.3-1", "1.3-1 runs backwards: write the lower number first, 1-3 in place of 3-1"),
        ("2-0.*", "2-0.* runs backwards: write the lower number first, 0-2 in place of 2-0"),
        ("cross.0.1", "the model has one stack of layers; leave out the name, as in 0.1"),
        ("one", "'one' is no head id"),
        ("", "no head was named"),
        ([], "no head was named"),
        ([3], "a head's id is written as '18.6', came 3"),
        (3, "heads must be ids, ranges or a file of them, came int"),
        (Path("/nowhere/heads.txt"), "cannot be read: No such file"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_heads_that_are_not_there(decoder: hw.Model, heads: object, said: str) -> None:
    with pytest.raises(HeadError, match=re.escape(said)):
        selected(census(decoder), heads)  # type: ignore[arg-type]


def test_heads_from_files(decoder: hw.Model, tmp_path: Path) -> None:
    lines, listed = tmp_path / "头.txt", tmp_path / "heads.json"
    lines.write_text("0.1 # the first\n2.*\n\n1.0, 1.3", encoding="utf-8")
    listed.write_text('["0.1", "2.*", "1.0", "1.3"]', encoding="utf-8")
    found = []
    for path in (lines, listed):
        with hw.ablate(decoder, path) as ablation:
            logits(decoder)
        found.append([str(id) for id in ablation.heads])
    assert found[0] == found[1] == ["0.1", "1.0", "1.3", "2.0", "2.1", "2.2", "2.3"]


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_ablated(decoder: hw.Model) -> None:
    with pytest.raises(ModelError, match="nothing was changed"), hw.ablate(decoder, "0.1"):
        pass
    with pytest.raises(TextError, match="needs texts"), hw.ablate(decoder, "0.1", how="mean"):
        pass
    with pytest.raises(HeadError, match="not there"), hw.ablate(decoder, "9.9"):
        pass
    with pytest.raises(ConfigError, match="how='half'"):
        check_how("half")
    with pytest.raises(ConfigError, match="must be a number"):
        factors_of([("0.1", float("nan"))])
    with pytest.raises(ModelError, match="takes a model from load"):
        hw.Gates(nn.Linear(1, 1))  # type: ignore[arg-type]


@pytest.mark.models
def test_induction_heads_of_smollm2_are_what_copies() -> None:
    """Without its four best induction heads a second copy of random tokens costs far more, without others not."""
    model = hw.load("smollm2", quiet=True)
    draw = torch.Generator().manual_seed(0)
    row = torch.randint(1000, 40000, (4, 64), generator=draw)
    ids = torch.cat([row, row], 1)

    def second(output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        nll = nn.functional.cross_entropy(
            output[:, 64:-1].transpose(1, 2).float(), inputs["input_ids"][:, 65:], reduction="none"
        )
        return nll.mean(1)

    def without(heads: str) -> float:
        with hw.ablate(model, heads):
            return hw.loss(model, ids, second).mean

    whole = hw.loss(model, ids, second).mean
    assert whole < 3.5
    assert without("18.6 17.3 17.4 17.5") > whole + 4
    assert without("5.1 9.4 21.2 25.7") < whole + 1.5
    assert hw.loss(model, ids, second).mean == whole
