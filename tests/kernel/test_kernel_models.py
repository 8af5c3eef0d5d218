"""On the tensors of a real trained model, whose rows are sharp, the kernel gives what plain torch gives."""

from __future__ import annotations

import pytest
import torch
from kernel_help import assert_same, forced

import headwise as hw
from headwise.core import kernel
from headwise.core.masks import Mask
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted
from headwise.core.taps import Tap, tapped

TEXT = (
    "The animal didn't cross the street because it was too tired. When Mary and John went to the store, "
    "John gave a drink to Mary. The animal didn't cross the street because it was too wide. "
) * 3


@pytest.fixture(scope="module")
def calls() -> list[tuple[Scores, torch.Tensor]]:
    """(scores, v) of every layer of SmolLM2 over a text, read through taps."""
    model = hw.load("smollm2")
    seen: list[tuple[Scores, torch.Tensor]] = []
    tap = Tap(observers=(lambda scores, v, z: seen.append((scores, v)),))
    taps = {layer.module: tap for layer in model.anatomy.layers}
    ids = torch.tensor([model.tokenizer.encode(TEXT).ids])
    with model.open(), tapped(taps), torch.no_grad():
        model.run({"input_ids": ids})
    assert len(seen) == len(model.anatomy.layers)
    return seen


@pytest.mark.models
@pytest.mark.parametrize("name", kernel.SETS)
def test_every_layer_of_smollm2(name: str, calls) -> None:
    sharpest = 0.0
    with forced(name):
        for scores, v in calls[::3]:
            queries, keys = scores.shape[2:]
            probes = torch.stack(
                [torch.arange(queries) - 1, torch.arange(queries), torch.zeros(queries)]
            )
            wanted = Wanted(
                probes=probes.long()[None],
                top=8,
                eligible=(torch.arange(keys) > 0)[None],
                pool=32,
                received=True,
            )
            assert isinstance(scores.mask, Mask)
            assert_same(scores, v, wanted)
            sharpest = max(sharpest, float(scores.rows().amax(-1)[..., 20:].mean(-1).max()))
    assert sharpest > 0.9  # else these rows test no more than random ones
