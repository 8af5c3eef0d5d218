"""The ledger of real models, whole, pruned and regrouped, and of modules of one's own."""

from __future__ import annotations

import pytest
import torch
from ledger_help import real_flops, real_kept
from torch import nn

import headwise as hw
from headwise.hub.weights import weights_of
from headwise.names import ConfigError, ModelError, TextError

IDS = {"input_ids": torch.arange(3, 14)[None]}


def is_exact(model: hw.Model, inputs: dict[str, torch.Tensor]) -> hw.Ledger:
    found = hw.ledger(model, inputs=inputs)
    assert found.parameters == sum(p.numel() for p in model.module.parameters())
    assert found.activation_bytes == real_kept(model, inputs)
    assert (found.flops_forward, found.flops_backward) == real_flops(model, inputs)
    return found


def test_the_model_that_comes_along_and_what_is_cut_of_it() -> None:
    model = hw.load("mini", quiet=True)
    whole = is_exact(model, IDS)
    by_name = hw.ledger("mini", length=11)
    assert by_name.table.identical(whole.table.assign_attrs(by_name.table.attrs))
    cut = hw.prune(model, heads=["0.1", "2.0", "2.3"])
    pruned = is_exact(cut, IDS)
    assert pruned.part("o")["weights"] == whole.part("o")["weights"] * 13 // 16
    assert pruned.part("scores")["flops_forward"] * 16 == whole.part("scores")["flops_forward"] * 13
    shapes = {str(one.id): {s.name: s.times for s in one.stages} for one in pruned.stages}
    assert [shapes[id]["q"] for id in "0123"] == [3, 4, 2, 4]


def test_parts_are_those_that_the_weights_of_heads_are() -> None:
    model = hw.load("mini", quiet=True)
    found = hw.ledger(model, inputs=IDS)
    for layer in weights_of(model, IDS).layers:
        for part, held in (("q", layer.q), ("k", layer.k), ("v", layer.v), ("o", layer.o)):
            assert held is not None
            cell = found.table.sel(place=str(layer.id), part=part)
            assert int(cell["weights"]) == held.weight.numel()


def test_a_module_of_ones_own() -> None:
    torch.manual_seed(0)
    inner = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    stack = nn.TransformerEncoder(inner, 2, enable_nested_tensor=False)
    found = hw.ledger(stack, length=7, batch=3)
    assert found.parameters == sum(p.numel() for p in stack.parameters())
    assert found.part("q")["weights"] == found.part("v")["weights"] == 2 * 24 * 24
    assert found.part("ffn")["weights"] == 2 * 2 * 24 * 48
    assert found.part("scores")["flops_forward"] == 2 * 3 * 2 * 7 * 7 * 24
    assert not any(p.grad is not None for p in stack.parameters())


def test_what_cannot_be_counted() -> None:
    model = hw.load("mini", quiet=True)
    with pytest.raises(TextError, match=r"length=257, and .* reads 256 positions at most"):
        hw.ledger(model, length=257)
    with pytest.raises(ConfigError, match="the heads of a module are what they are"):
        hw.ledgers(model, [2])
    with pytest.raises(ModelError, match="takes a model, a configuration"):
        hw.ledger(3)
    with pytest.raises(ModelError, match="cannot be looked into"):
        hw.ledger(nn.Linear(2, 2))


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "minilm", "e5-small", "rxnmapper"])
def test_real_models_cost_what_they_really_do(name: str) -> None:
    model = hw.load(name, quiet=True)
    whole = is_exact(model, IDS)
    assert hw.ledger(name, length=11).parameters == whole.parameters


@pytest.mark.models
def test_a_model_of_sound() -> None:
    model = hw.load("whisper-tiny-en", quiet=True)
    inputs = {"input_features": torch.zeros(1, 80, 3000), "decoder_input_ids": IDS["input_ids"]}
    found = hw.ledger(model, inputs=inputs)
    assert found.parameters == sum(p.numel() for p in model.module.parameters())
    assert (found.flops_forward, found.flops_backward) == real_flops(model, inputs)
    assert found.activation_bytes >= real_kept(model, inputs)  # it makes a mask of ones for itself
    assert found.sizes.target == 11
    by_name = hw.ledger("whisper-tiny-en", target_length=11)
    assert by_name.flops_forward == found.flops_forward
