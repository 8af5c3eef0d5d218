"""Planted faults in real trained models: the module is named, by values and by gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from locating_help import EDITED, LENGTH, before, blend, edited, ids_of
from torch import Tensor, nn

import headwise as hw
from headwise.check.places.locating import Entry, entry, entry_by_gradient
from headwise.check.places.tracing import trace
from headwise.core import masks

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def smollm2() -> nn.Module:
    module: nn.Module = hw.load("smollm2").module
    return module.eval()


def by_values(model: nn.Module) -> Entry | None:
    with torch.no_grad():
        runs = [
            trace(model, lambda ids=ids: model(ids), LENGTH) for ids in (ids_of(), edited(ids_of()))
        ]
    return entry(runs[0], runs[1], before(), tolerance=1e-5)


def by_gradient(model: nn.Module) -> Entry | None:
    embedding = model.get_submodule("embedding.tokens")
    source = embedding(ids_of()).detach().requires_grad_()
    handle = embedding.register_forward_hook(lambda _, args, out: source)
    keys = torch.arange(LENGTH)[None] == EDITED
    found = entry_by_gradient(model, lambda: model(ids_of()), source, keys, before())
    handle.remove()
    return found


def test_a_sound_trained_model_has_no_entry(smollm2):
    assert by_values(smollm2) is None
    assert by_gradient(smollm2) is None


def unmasked(_: nn.Module, args: Any, kwargs: Any) -> Any:
    return args[:1], kwargs | {"mask": masks.full()}


@pytest.mark.parametrize("layer", [0, 12, 29])
def test_a_layer_without_mask_is_named(smollm2, layer):
    part = smollm2.get_submodule(f"blocks.{layer}.attention")
    handle = part.register_forward_pre_hook(unmasked, with_kwargs=True)
    try:
        assert by_values(smollm2) == Entry(f"blocks.{layer}.attention", "MultiHeadAttention")
        assert by_gradient(smollm2) == Entry(f"blocks.{layer}.attention", "MultiHeadAttention")
    finally:
        handle.remove()


def test_a_mean_over_time_is_named(smollm2):
    handle = smollm2.get_submodule("blocks.20.ffn.w_in").register_forward_hook(
        lambda _, args, out: blend(out)
    )
    try:
        assert by_values(smollm2) == Entry("blocks.20.ffn.w_in", "Linear")
    finally:
        handle.remove()


def test_what_leaves_too_little_in_values_is_named_by_gradient(smollm2):
    def faint(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        return out + 1e-12 * out.mean(1, keepdim=True)

    handle = smollm2.get_submodule("blocks.20.ffn").register_forward_hook(faint)
    try:
        assert by_values(smollm2) is None
        assert by_gradient(smollm2) == Entry("blocks.20.ffn", "FeedForward")
    finally:
        handle.remove()
