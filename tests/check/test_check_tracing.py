"""What a trace keeps: tensors by position however they lie, pieces joined, hooks removed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from locating_help import (
    LENGTH,
    blend,
    change_output,
    future_entry,
    ids_of,
    ours,
    spread,
    tiny,
)
from torch import Tensor, nn

from headwise.check.places.locating import Entry, entry, entry_by_gradient
from headwise.check.places.placing import leaves, placed
from headwise.check.places.tracing import trace
from headwise.names import ModelError, ShapeError

D = 6
X = torch.arange(2.0 * LENGTH * D).view(2, LENGTH, D)
HEADS = torch.arange(2.0 * 3 * LENGTH * D).view(2, 3, LENGTH, D)
PAIRS = torch.arange(2.0 * 3 * LENGTH * LENGTH).view(2, 3, LENGTH, LENGTH)

LAID = {
    "rows first": (X, X),
    "positions first": (X.transpose(0, 1), X),
    "channels before positions": (X.mT, X),
    "flattened": (X.flatten(0, 1), X),
    "heads": (HEADS, HEADS.transpose(1, 2).flatten(2)),
    "heads in the rows": (HEADS.flatten(0, 1), HEADS.transpose(1, 2).flatten(2)),
    "one row for all": (X[:1], X[:1].expand(2, -1, -1)),
    "without rows": (X[0], X[:1].expand(2, -1, -1)),
    "one number a position": (X[..., 0], X[..., :1]),
    "scores": (PAIRS, PAIRS.permute(0, 2, 3, 1)),
    "scores of all rows": (PAIRS[0, 0], PAIRS[:1, :1].permute(0, 2, 3, 1).expand(2, -1, -1, -1)),
}


@pytest.mark.parametrize("name", LAID)
def test_positions_are_found_however_they_lie(name):
    given, expected = LAID[name]
    found = placed(given, LENGTH, 2)
    assert found is not None
    assert torch.equal(found, expected)


@pytest.mark.parametrize("given", [X, HEADS, X[..., 0], X.flatten(0, 1)])
def test_one_row_too(given):
    one = given[:LENGTH] if given.dim() == 2 and given.shape[0] != 2 else given[:1]
    found = placed(one, LENGTH, 1)
    assert found is not None
    assert found.shape[:2] == (1, LENGTH)
    assert torch.equal(found, placed(given, LENGTH, 2)[:1])


@pytest.mark.parametrize("shape", [(2, D), (5, D, D), (2, LENGTH + 2, D), (), (3, 5, LENGTH)])
def test_what_counts_no_positions_is_left(shape):
    assert placed(torch.zeros(shape), LENGTH, 2) is None


@pytest.mark.parametrize("batch", [1, 2])
def test_a_piece_of_one_position(batch):
    x = torch.randn(batch, 1, D)
    heads = torch.randn(batch, 3, 1, D)
    assert torch.equal(placed(x, 1, batch), x)
    assert torch.equal(placed(heads, 1, batch), heads.transpose(1, 2).flatten(2))


@dataclass
class Held:
    states: Tensor
    note: str = ""


def test_tensors_are_found_in_whatever_holds_them():
    output = transformers.modeling_outputs.BaseModelOutput(
        last_hidden_state=X, hidden_states=(X, X)
    )
    places = [place for place, _ in leaves({"a": (X, [X]), "b": Held(X), "c": output, "d": 3})]
    assert places == [
        "a.0",
        "a.1.0",
        "b.states",
        "c.last_hidden_state",
        "c.hidden_states.0",
        "c.hidden_states.1",
    ]


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_hooks_are_removed_and_outputs_unchanged():
    model, ids = tiny("llama"), ids_of()
    plain = model(ids).logits
    traced: list[Tensor] = []
    trace(model, lambda: traced.append(model(ids).logits), LENGTH)
    assert hooks_of(model) == 0
    assert torch.equal(plain, traced[0])


def test_hooks_are_removed_where_the_forward_fails():
    model, ids = tiny("llama"), ids_of()

    def fail(_: nn.Module, args: Any) -> None:
        raise ZeroDivisionError

    part = model.get_submodule("model.layers.1.mlp")
    handle = part.register_forward_pre_hook(fail)
    with pytest.raises(ZeroDivisionError):
        trace(model, lambda: model(ids), LENGTH)
    handle.remove()
    assert hooks_of(model) == 0


def test_a_call_that_fails_and_is_made_again_another_way():
    model = tiny("llama")
    part = model.get_submodule("model.layers.1.mlp")
    change_output(model, "model.layers.1.mlp.up_proj", blend)
    forward = part.forward

    def once_more(x: Tensor) -> Tensor:
        with suppress(RuntimeError):
            part.down_proj(x)  # of another width
        return forward(x)

    part.forward = once_more  # type: ignore[method-assign]
    (top,) = trace(model, lambda: model(ids_of()), LENGTH).calls
    assert "output.logits" in top.outputs
    assert future_entry(model) == Entry("model.layers.1.mlp.up_proj", "Linear")


def test_a_tensor_that_is_passed_on_is_kept_once():
    model, ids = tiny("llama"), ids_of()
    run = trace(model, lambda: model(ids), LENGTH)
    calls = {call.path: call for call in run.ended()}
    assert calls[""].outputs["output.logits"] is calls["lm_head"].outputs["output"]
    assert calls["model.norm"].outputs["output"] is calls["lm_head"].inputs[
        "args.0"
    ] or torch.equal(calls["model.norm"].outputs["output"], calls["lm_head"].inputs["args.0"])


def test_what_is_changed_in_place_later_is_kept_as_it_was():
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            kept.append(y.clone())
            y += 1
            return self.second(y)

    kept: list[Tensor] = []
    model = InPlace()
    with torch.no_grad():
        run = trace(model, lambda: model(torch.randn(1, LENGTH, 4)), LENGTH)
    first, second, _ = run.ended()
    assert torch.equal(first.outputs["output"], kept[0])
    assert torch.equal(second.inputs["args.0"], kept[0] + 1)


def test_modules_end_from_the_inside_out():
    model, ids = tiny("llama"), ids_of()
    paths = [call.path for call in trace(model, lambda: model(ids), LENGTH).ended()]
    assert paths[0] == "model.embed_tokens"
    assert paths[-1] == ""
    inner = ["model.layers.0.mlp.act_fn", "model.layers.0.mlp", "model.layers.0", "model"]
    assert [path for path in paths if path in inner] == inner


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [5, 5, 3], [6, 7]])
def test_cached_pieces_join_to_the_whole(pieces):
    model, ids = tiny("llama"), ids_of()

    def stepwise() -> None:
        cache = transformers.DynamicCache()
        for piece in ids.split(pieces, 1):
            model(piece, cache=cache)

    whole = trace(model, lambda: model(ids), LENGTH)
    joined = trace(model, stepwise, LENGTH, join=pieces)
    everywhere = torch.ones(1, LENGTH, dtype=torch.bool)
    assert entry(whole, joined, everywhere, tolerance=1e-9) is None
    theirs = {call.path: call for call in joined.ended()}
    for call in whole.ended():
        if "rotary" not in call.path:
            assert set(call.outputs) <= set(theirs[call.path].outputs), call.path


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [5, 5, 3]])
@pytest.mark.parametrize("path", ["model", "model.layers.1.self_attn", "model.layers.2.mlp"])
def test_a_fault_of_cached_pieces_is_named(pieces, path):
    model, ids = tiny("llama"), ids_of()
    part = model.get_submodule(path)
    forward = part.forward

    def forgets(*args: Any, **kwargs: Any) -> Any:
        """Positions from 0, no keys of the pieces before, or a mean over the piece."""
        if path == "model":
            length = kwargs["input_ids"].shape[1]
            kwargs["position_ids"] = torch.arange(length)[None]
        elif path.endswith("attn"):
            kwargs |= {"cache": None, "attention_mask": None}
        out = forward(*args, **kwargs)
        return blend(out) if path.endswith("mlp") else out

    part.forward = forgets  # type: ignore[method-assign]

    def stepwise() -> None:
        cache = transformers.DynamicCache()
        for piece in ids.split(pieces, 1):
            model(input_ids=piece, cache=cache)

    whole = trace(model, lambda: model(input_ids=ids), LENGTH)
    joined = trace(model, stepwise, LENGTH, join=pieces)
    found = entry(whole, joined, torch.ones(1, LENGTH, dtype=torch.bool), tolerance=1e-9)
    assert found is not None
    assert found.module == path


def test_what_was_compiled_is_run_as_written(unchecked):
    model = ours()
    change_output(model, "blocks.1.ffn", blend)
    compiled = torch.compile(model, backend="eager")
    assert future_entry(compiled) == Entry("blocks.1.ffn", "FeedForward")  # type: ignore[arg-type]


def test_what_was_compiled_inside_is_run_as_written(unchecked):
    model = ours()
    change_output(model, "blocks.1.ffn", blend)
    model.blocks[1] = torch.compile(model.blocks[1], backend="eager")  # type: ignore[index, operator]
    found = future_entry(model)
    assert found == Entry("blocks.1.ffn", "FeedForward")
    assert isinstance(model.get_submodule(found.module), nn.Module)


def test_a_scripted_module_is_part_of_the_one_around():
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x.mean(1, keepdim=True)

    torch.manual_seed(0)
    scripted = torch.jit.script(Mean())
    model = spread(nn.Sequential(nn.Embedding(97, 8), nn.Linear(8, 8), scripted, nn.Linear(8, 8)))
    assert future_entry(model) == Entry("", "Sequential")
    with pytest.raises(ModelError, match="ran no module of it"):
        trace(scripted, lambda: model(ids_of()), LENGTH)


def test_a_wrapper_for_several_devices():
    model = ours()
    change_output(model, "blocks.1.ffn", blend)
    assert future_entry(nn.DataParallel(model)) == Entry("module.blocks.1.ffn", "FeedForward")


def test_a_trace_of_nothing_is_an_error():
    model, ids = tiny("llama"), ids_of()
    with pytest.raises(ModelError, match="ran no module of it"):
        trace(model, lambda: None, LENGTH)
    with pytest.raises(ModelError, match=f"read and gave nothing of {LENGTH + 1}"):
        trace(model, lambda: model(ids), LENGTH + 1)
    with pytest.raises(ShapeError, match="that of the batch"):
        trace(model, lambda: model(ids), 2, 2)
    with pytest.raises(ShapeError, match="make 13 in sum"):
        trace(model, lambda: model(ids), LENGTH, join=[6, 6])


def test_runs_that_do_not_fit_are_an_error():
    model = tiny("llama")
    a = trace(model, lambda: model(ids_of()), LENGTH)
    b = trace(model, lambda: model(ids_of(length=11)), 11)
    with pytest.raises(ShapeError, match="trace both at one length"):
        entry(a, b, torch.ones(1, LENGTH, dtype=torch.bool))
    with pytest.raises(ShapeError, match="trace both at one length"):
        entry(a, a, torch.ones(1, 11, dtype=torch.bool))
    keys = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ShapeError, match="must require a gradient"):
        entry_by_gradient(model, lambda: None, torch.zeros(1, 3, 4), keys, keys)
