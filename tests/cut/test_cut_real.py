"""Real models cut: what is left gives what the whole model gives with the heads at 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cut_help import answers, off

import headwise as hw
from headwise.cut.census import census
from headwise.cut.example import example
from headwise.cut.pruning.sizes import sizes_of
from headwise.hub.load import load_in_transformers
from headwise.names import HeadId

pytestmark = pytest.mark.models

TEXT = "The animal didn't cross the street because it was too tired."


def some(model: hw.Model, share: float) -> list[HeadId]:
    """Heads drawn at random; of layers that are one module the same of each."""
    draw = np.random.default_rng(0)
    runs = census(model).runs
    if len({id(run.layer.module) for run in runs}) < len(runs):
        return [run.id.head(head) for run in runs for head in (1, 3)]
    heads = census(model).heads
    return [heads[i] for i in draw.permutation(len(heads))[: int(share * len(heads))]]


WAYS = [
    *((name, hw.load) for name in ("smollm2", "minilm", "whisper-tiny-en", "rxnmapper")),
    *((name, load_in_transformers) for name in ("smollm2", "minilm")),
]


@pytest.mark.parametrize(("name", "loads"), WAYS)
def test_cut_is_ablated(name: str, loads) -> None:
    model = loads(name, quiet=True)
    heads, before = some(model, 0.2), sizes_of(model)
    cut, inputs = hw.prune(model, heads), example(model)
    with hw.ablate(model, heads):
        wanted = answers(model, inputs)
    assert off(answers(cut, inputs), wanted) < 1e-5
    assert off(answers(cut, inputs), answers(model, inputs)) > 0.01
    after = sizes_of(cut)
    assert after.heads == before.heads - len(heads)
    assert after.parameters < before.parameters


@pytest.mark.parametrize("loads", [hw.load, load_in_transformers])
def test_smollm2_without_a_layer_and_a_group_looks_where_it_did(loads) -> None:
    model = loads("smollm2", quiet=True)
    heads = "0.*, 7.0-2, 12.4, 29.8, 29.1"
    cut = hw.prune(model, heads)
    record = hw.look(cut, TEXT)
    with hw.ablate(model, heads):
        wanted = hw.look(model, TEXT)
    for head in ("7.3", "12.5", "29.0", "18.6"):
        np.testing.assert_allclose(
            record.pattern(head).values, wanted.pattern(head).values, atol=1e-4
        )
    assert record.verified < 1e-5
    assert sizes_of(cut).cache == (30 * 3 - 4) * 2 * 64 * 4


@torch.no_grad()
def test_smollm2_cut_in_transformers_writes_with_its_cache() -> None:
    model = load_in_transformers("smollm2", quiet=True)
    heads = "0.*, 7.0-2, 12.4, 29.8"
    cut = hw.prune(model, heads)
    assert model.tokenizer is not None
    ids = torch.tensor([[504, 5023, 3249, 982, 3211, 260, 4531]])
    written = {"max_new_tokens": 8, "do_sample": False}
    with hw.ablate(model, heads):
        wanted = model.module.generate(ids, **written)
    assert torch.equal(cut.module.generate(ids, **written), wanted)
    assert not torch.equal(model.module.generate(ids, **written), wanted)
