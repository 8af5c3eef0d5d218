"""Every family of the table, on each attention implementation: an edit changes what W_O reads, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.cut.census import census
from headwise.hub.outputs import OutputMap, watching
from headwise.names import LayerId

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import TABLE, build, inputs_of

IMPLEMENTATIONS = [None, "eager"]


def output(model: hw.Model, inputs: Mapping[str, Any]) -> Tensor:
    """What the model gives: its logits, or its first tensor of floats."""
    with torch.no_grad():
        out = model.outputs(inputs)
    values = [out] if isinstance(out, Tensor) else list(dict(out).values())
    return next(x for x in values if isinstance(x, Tensor) and x.is_floating_point())


def output_maps(model: hw.Model, inputs: Mapping[str, Any]) -> dict[LayerId, OutputMap]:
    """W_O of each layer that has one, found by what it reads."""
    found: dict[LayerId, OutputMap] = {}
    with watching(model.module) as watch, model.open():
        taps = {
            layer.module: Tap(
                observers=(
                    lambda s, v, z, id=layer.id: watch.expect(z, lambda m: found.setdefault(id, m)),
                )
            )
            for layer in model.anatomy.layers
        }
        with tapped(taps):
            model.run(inputs)
    return found


@pytest.mark.parametrize("attention", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", TABLE)
def test_gates_of_one_and_zero(name: str, attention: str | None) -> None:
    """A gate of 1 is bit for bit nothing; 0 is that head's slice of W_O's input zeroed; then all is as before."""
    model, inputs = hw.load(build(name, attention)), inputs_of(name)
    whole = output(model, inputs)
    runs = census(model, inputs).runs
    with hw.ablate(model, "*", factor=1.0):
        assert torch.equal(output(model, inputs), whole)

    maps = output_maps(model, inputs)
    ran_once = [run for run in runs if len(census(model).of(run.layer.module)) == 1]
    for run in [run for run in ran_once if run.id in maps][-2:]:
        head = run.heads[-1]
        module = model.module.get_submodule(maps[run.id].path)

        def cut(
            _: Any, given: tuple[Any, ...], at: int = run.index(head), dim: int = run.v_dim
        ) -> Any:
            x = given[0].clone()
            x[..., at * dim : (at + 1) * dim] = 0
            return (x, *given[1:])

        handle = module.register_forward_pre_hook(cut)
        with hw.ablate(model, [run.id.head(head)], factor=1.0):  # torch's own calls its W_O only so
            wanted = output(model, inputs)
        handle.remove()
        with hw.ablate(model, [run.id.head(head)]) as ablation:
            came = output(model, inputs)
        assert ablation.fired.times[run.id] >= 1
        scale = float(whole.abs().max())
        assert float((came - wanted).abs().max()) <= 1e-5 * max(1.0, scale)
        assert float((came - whole).abs().max()) > 0
    assert torch.equal(output(model, inputs), whole)
