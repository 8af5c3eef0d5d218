"""Every family cut: a head at gate 0, its slice of W_O at 0 and the head cut away are one, or it is refused."""

from __future__ import annotations

import pytest
import torch
from cut_help import answers, build, inputs_of, off, sliced, uneven, whole_layers
from tiny_models import TABLE

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.surgery import cut_heads
from headwise.names import ModelError

BETWEEN = "no linear map reads its head outputs as they are"
NORM = "each of its queries depends on all heads through model.layers.0.self_attn.q_norm"
CODE = "with fewer heads its code raises"

REFUSED = {
    **dict.fromkeys(("bitnet", "diffllama", "qwen3-next", "ibert", "xlnet"), BETWEEN),
    **dict.fromkeys(("olmo2", "olmo3", "olmoe"), NORM),
    **dict.fromkeys(("bloom", "mpt", "mpnet", "doge", "deberta-relative"), CODE),
    **dict.fromkeys(("blip-vision", "timesformer", "codegen"), CODE),
    "falcon-groups": "its keys are not apart by heads in its weights",
}
"""Families that cannot be cut, and the reason that is given."""

ROUNDING = {"metaclip2": 1e-4}
"""How far rounding alone takes what is small beside what it is made of (CLIP's products of two towers)."""


@pytest.mark.parametrize("kind", [uneven, whole_layers])
@pytest.mark.parametrize("name", [name for name in TABLE if name not in REFUSED])
def test_cut_is_ablated_is_sliced(name: str, kind) -> None:
    inputs = inputs_of(name)
    model = hw.load(build(name), quiet=True)
    census(model, inputs)
    heads = kind(model)
    cut = cut_heads(model, heads, inputs=inputs)
    found, room = answers(cut, inputs), ROUNDING.get(name, 1e-5)
    with hw.ablate(model, heads):
        ablated = answers(model, inputs)
    assert off(found, ablated) < room
    assert off(found, answers(sliced(model, heads, inputs), inputs)) < room
    assert off(found, answers(model, inputs)) > 1e-3, "cutting changes nothing here"
    left = [id for id in census(model).heads if id not in heads]
    assert list(census(cut).heads) == left
    sizes = [sum(p.numel() for p in m.module.parameters()) for m in (cut, model)]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_refused_and_left_as_it_was(name: str) -> None:
    inputs = inputs_of(name)
    model = hw.load(build(name), quiet=True)
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    wanted = answers(model, inputs)
    heads = [run.id.head(head) for run in census(model, inputs).runs for head in run.heads[:1]]
    with pytest.raises(ModelError, match="cannot be cut") as error:
        cut_heads(model, heads, inputs=inputs, inplace=True)
    assert REFUSED[name] in str(error.value)
    assert "\n" not in str(error.value)
    after = model.module.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert off(answers(model, inputs), wanted) == 0


def test_code_that_runs_on_and_gives_something_else_is_refused() -> None:
    """CodeGen's weights lie in an order of its own, which two heads of four can still be cut into."""
    model = hw.load(build("codegen"), quiet=True)
    with pytest.raises(ModelError, match="it then gives something else"):
        cut_heads(model, "*.1, *.3")
