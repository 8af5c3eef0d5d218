"""W_O of every family is found by what it reads, and results are those its own weights give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import TABLE, build, ids_of, inputs_of, padded

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import from_inputs

OUTPUTS = {
    "gpt2": "h.1.attn.c_proj",
    "gpt-neox": "layers.1.attention.dense",
    "llama": "layers.1.self_attn.o_proj",
    "bert": "layer.1.attention.output.dense",
    "albert": "albert_layers.0.attention.dense",
    "t5": "block.1.layer.0.SelfAttention.o",
}


WITHOUT = {"bitnet", "diffllama", "qwen3-next", "ibert", "xlnet"}
"""Families with a norm, a difference of heads or a gate before W_O, or whose W_O is no linear module."""


@pytest.mark.parametrize("name", TABLE)
def test_a_profile_of_every_family_is_what_its_records_give(name: str) -> None:
    model, inputs = hw.load(build(name)), inputs_of(name)
    profiler = Profiler(model, pool=0, positions=3)
    for _ in range(2):
        profiler.add(from_inputs(model, inputs))
    table, records = profiler.dataset(), hw.look(model, inputs)
    assert table.attrs["verified"] < 2e-5
    assert ("no_results" in table.attrs) == (name in WITHOUT), table.attrs["no_results"]
    if name not in WITHOUT:
        np.testing.assert_allclose(table.result_share.sum("head", skipna=True), 1, atol=1e-4)
    for head in records[0].heads():
        layer = head.layer if table.layer.dtype.kind == "i" else str(head.layer_id)
        rows = [torch.from_numpy(record.weights(head)) for record in records]
        seen = [torch.from_numpy(record.visible(head)).any(1) for record in records]
        entropy = torch.cat([torch.special.entr(row).sum(-1) for row in rows])[torch.cat(seen)]
        at = {"layer": layer, "head": head.head}
        assert float(table.entropy.sel(at)) == pytest.approx(float(entropy.mean()), abs=1e-4)
    assert int(table.entropy.notnull().sum()) == len(records[0].heads())


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_output_map_is_the_module_that_reads_the_head_outputs(name: str) -> None:
    model = hw.load(build(name))
    profiler = Profiler(model)
    profiler.add(from_inputs(model, inputs_of(name)))
    found = [output.path for output in profiler._maps.values()]
    assert any(path.endswith(OUTPUTS[name]) for path in found), found
    assert len(found) == len(profiler.dataset().layer)


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert"])
def test_results_are_what_zeroing_the_other_heads_leaves(name: str) -> None:
    """A head's result is what its output map gives when the other heads' inputs are 0, less the bias."""
    model, inputs = hw.load(build(name)), {"input_ids": torch.stack(ids_of(4, 4))}
    profiler = Profiler(model)
    for _ in range(2):
        profiler.add(from_inputs(model, inputs))
    output = next(iter(profiler._maps.values()))
    module, heads = model.module.get_submodule(output.path), output.weight.shape[0]
    seen = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    model.run(inputs)
    hook.remove()
    with torch.no_grad():
        nothing = module(torch.zeros_like(seen[0]))
        for head in range(heads):
            alone = torch.zeros_like(seen[0]).unflatten(-1, (heads, -1))
            alone[..., head, :] = seen[0].unflatten(-1, (heads, -1))[..., head, :]
            norms = (module(alone.flatten(-2)) - nothing).norm(dim=-1)
            table = float(profiler.dataset().result_norm[0, head])
            assert table == pytest.approx(float(norms.mean()), rel=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
def test_results_of_torchs_own_layers_are_what_cutting_the_head_takes_away(
    batch_first: bool,
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 32, batch_first=batch_first)
    model = hw.load(torch.nn.TransformerEncoder(layer, 2).eval())
    inputs = {"src": torch.randn(2, 4, 24) if batch_first else torch.randn(4, 2, 24)}
    profiler = Profiler(model)
    for _ in range(2):
        profiler.add(from_inputs(model, inputs))
    attention, outputs = model.module.layers[0].self_attn, []
    hook = attention.register_forward_hook(lambda *call: outputs.append(call[2][0]))
    for gates in [torch.ones(3), *(1 - torch.eye(3))]:
        with model.open(), tapped({attention: Tap(gate=gates)}):
            model.run(inputs)
    hook.remove()
    table = profiler.dataset()
    for head in range(3):
        norms = (outputs[0] - outputs[head + 1]).norm(dim=-1)
        assert float(table.result_norm[0, head]) == pytest.approx(float(norms.mean()), rel=1e-4)
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-5)


def test_a_norm_before_the_output_map_leaves_no_results() -> None:
    module = build("llama")
    for layer in module.model.layers:
        o_proj = layer.self_attn.o_proj
        layer.self_attn.o_proj = torch.nn.Sequential(torch.nn.LayerNorm(24), o_proj)
    model = hw.load(module)
    table = hw.profile(model, torch.stack(ids_of(9, 9)))
    assert np.isnan(table.result_norm).all()
    assert np.isnan(table.result_share).all()
    assert (table.result_norm_count == 0).all()
    assert table.attrs["no_results"].startswith("layers 0, 1: no linear map of the model reads")
    assert np.isfinite(table.entropy).all()


def test_weights_kept_elsewhere_between_uses_are_fetched() -> None:
    from accelerate import cpu_offload

    rows = torch.stack(ids_of(9, 9))
    table = hw.profile(hw.load(build("gpt2")), rows)
    module = build("gpt2")
    model = hw.load(module)
    cpu_offload(module, execution_device=torch.device("cpu"))
    assert all(parameter.is_meta for parameter in module.parameters())
    again = hw.profile(model, rows)
    np.testing.assert_allclose(again.result_norm, table.result_norm, rtol=1e-5)
    np.testing.assert_allclose(again.entropy, table.entropy, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "bert", "roberta", "albert"])
def test_padding_on_either_side_counts_nowhere(name: str) -> None:
    model = hw.load(build(name))
    rows = ids_of(9, 4, 6)
    one_by_one = Profiler(model)
    for row in rows:
        one_by_one.add(from_inputs(model, {"input_ids": row[None]}))
    alone = one_by_one.dataset()
    for side in ("left", "right"):
        together = hw.profile(model, padded(rows, side))
        for variable in alone.data_vars:
            np.testing.assert_allclose(
                together[variable], alone[variable], atol=1e-5, err_msg=str(variable)
            )


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_decoder_that_writes_itself(name: str) -> None:
    model = hw.load(build(name))
    table = hw.profile(model, torch.stack(ids_of(6, 6)))
    records = hw.look(model, {"input_ids": torch.stack(ids_of(6, 6))})
    weights = np.concatenate([record.weights("cross.1.2").max(1) for record in records])
    assert float(table.largest.sel(layer="cross.1", head=2)) == pytest.approx(
        weights.mean(), abs=1e-5
    )
