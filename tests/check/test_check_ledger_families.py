"""The ledger of every family of the table: what was really counted, run and held, to the last number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from ledger_help import real_flops, real_kept

import headwise as hw
from headwise.check.running.filling import cache_bytes, fill_of

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import TABLE, build, inputs_of

NEEDS_VALUES = {
    *(
        "flaubert",
        "xlm",
        "xmod",
        "nllb-moe",
        "switch",
        "videomae",
        "llava",
        "qwen2-vl",
        "paligemma",
    ),
}
"""What cannot be counted from shapes alone: they read ids or routes as numbers."""

OWN_MASK = {
    *(
        "biogpt",
        "roformer",
        "bart",
        "blenderbot",
        "blenderbot-small",
        "m2m100",
        "marian",
        "mbart",
        "pegasus",
    ),
    "plbart",
    "whisper",
}
"""What makes a mask of ones for itself: its values are not there to see that it hides nothing, so it is kept."""


@pytest.mark.parametrize("name", TABLE)
def test_the_ledger_is_what_a_real_run_costs(name: str) -> None:
    model, inputs = hw.load(build(name), quiet=True), inputs_of(name)
    found = hw.ledger(model, inputs=inputs)
    assert found.parameters == sum(p.numel() for p in model.module.parameters())
    assert ("values" in found.how) == (name in NEEDS_VALUES)
    kept = real_kept(model, inputs)
    assert found.activation_bytes > kept if name in OWN_MASK else found.activation_bytes == kept
    assert found.cache_bytes == really_cached(model, inputs)
    assert (found.flops_forward, found.flops_backward) == real_flops(model, inputs)


def really_cached(model: hw.Model, inputs: dict[str, torch.Tensor]) -> int:
    """Bytes of the cache after a run with values; 0 where there is none."""
    with torch.no_grad():
        fill = fill_of(model, inputs, 0, 0)
        return 0 if fill is None else cache_bytes(fill().cache)
