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

ROUNDING = dict.fromkeys(("clip", "clipseg", "metaclip2"), 1e-4)
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


def test_attention_by_hand_may_lose_all_heads_of_a_layer() -> None:
    model, inputs = hw.load(build("mpt"), quiet=True), inputs_of("mpt")
    cut = cut_heads(model, "0.*")
    assert [run.id.layer for run in census(cut).runs] == [1]
    with hw.ablate(model, "0.*"):
        assert off(answers(cut, inputs), answers(model, inputs)) < 1e-5


def test_a_weight_that_two_maps_share_is_cut_once_for_both() -> None:
    module, inputs = build("llama-mha"), inputs_of("llama-mha")
    for layer in module.model.layers:
        layer.self_attn.k_proj.weight = layer.self_attn.q_proj.weight
    model = hw.load(module, quiet=True)
    cut = cut_heads(model, "0.1, 1.3")
    attention = cut.module.model.layers[0].self_attn
    assert attention.k_proj.weight is attention.q_proj.weight
    with hw.ablate(model, "0.1, 1.3"):
        assert off(answers(cut, inputs), answers(model, inputs)) < 1e-5
