"""Planted faults in models of transformers and ours: the module in which the influence enters is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from locating_help import (
    EDITED,
    FAMILIES,
    LENGTH,
    ahead,
    before,
    blend,
    change_output,
    edited,
    future_entry,
    ids_of,
    ours,
    tiny,
)
from torch import Tensor, nn

from headwise.check.places.locating import Entry, entry, entry_by_gradient
from headwise.check.places.tracing import trace
from headwise.core import masks

CAUSAL = [name for name in FAMILIES if name != "albert"]

LAYERS = {
    "llama": "model.layers.1",
    "mixtral": "model.layers.1",
    "gpt2": "transformer.h.1",
    "bloom": "transformer.h.1",
    "falcon": "transformer.h.1",
    "mamba": "backbone.layers.1",
    "rwkv": "rwkv.blocks.1",
}

PARTS = {
    "llama": ("self_attn", "mlp", "mlp.up_proj", "post_attention_layernorm", "self_attn.v_proj"),
    "mixtral": ("self_attn", "mlp", "mlp.experts", "input_layernorm", "self_attn.o_proj"),
    "gpt2": ("attn", "mlp", "mlp.c_fc", "ln_2", "attn.c_proj"),
    "bloom": ("self_attention", "mlp", "mlp.gelu_impl", "input_layernorm"),
    "falcon": ("self_attention", "mlp", "mlp.act", "self_attention.query_key_value"),
    "mamba": ("mixer", "norm", "mixer.in_proj", "mixer.out_proj"),
    "rwkv": ("attention", "feed_forward", "attention.key", "ln2"),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_a_sound_model_has_no_entry(name):
    assert future_entry(tiny(name)) is None


def test_a_sound_block_of_ours_has_no_entry():
    assert future_entry(ours()) is None


@pytest.mark.parametrize("change", [blend, ahead])
@pytest.mark.parametrize(("name", "part"), [(n, p) for n in CAUSAL for p in ("", *PARTS[n])])
def test_the_module_that_mixes_time_is_named(name, part, change):
    model = tiny(name)
    path = f"{LAYERS[name]}.{part}".rstrip(".")
    change_output(model, path, change)
    assert future_entry(model) == Entry(path, type(model.get_submodule(path)).__name__)


@pytest.mark.parametrize(
    "path", ["blocks.1.attention", "blocks.0.ffn", "blocks.2.attention.w_o", "final_norm"]
)
def test_a_module_of_ours_is_named(path):
    model = ours()
    change_output(model, path, blend)
    found = future_entry(model)
    assert found is not None
    assert found.module == path


def test_a_hook_that_drops_the_mask_of_one_layer():
    model = tiny("llama", attn_implementation="eager")
    part = model.get_submodule("model.layers.1.self_attn")
    part.register_forward_pre_hook(
        lambda _, args, kwargs: (args, kwargs | {"attention_mask": None}), with_kwargs=True
    )
    assert future_entry(model) == Entry("model.layers.1.self_attn", "LlamaAttention")


@pytest.mark.parametrize(
    "mask", [masks.full(), masks.window(5, ahead=1), masks.causal() | masks.prefix(9)]
)
def test_a_mask_of_ours_that_shows_too_much(mask):
    model = ours()
    model.get_submodule("blocks.1.attention").register_forward_pre_hook(
        lambda _, args, kwargs: ((args[0], mask), {k: v for k, v in kwargs.items() if k != "mask"}),
        with_kwargs=True,
    )
    assert future_entry(model) == Entry("blocks.1.attention", "MultiHeadAttention")


def test_a_hook_that_changes_what_a_module_reads_is_its_part():
    model = tiny("gpt2")
    model.get_submodule("transformer.h.2.mlp").register_forward_pre_hook(
        lambda _, args: blend(args[0])
    )
    assert future_entry(model) == Entry("transformer.h.2.mlp", "GPT2MLP")


def test_a_part_that_gives_no_channels_is_passed_over():
    class NoChannels(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[..., :0]

    def call_it(part: nn.Module, args: tuple[Tensor, ...]) -> None:
        part.get_submodule("empty")(args[0])

    model = ours()
    attention = model.get_submodule("blocks.1.attention")
    attention.register_module("empty", NoChannels())
    attention.register_forward_pre_hook(call_it)
    attention.register_forward_hook(lambda _, args, out: blend(out))
    assert future_entry(model) == Entry("blocks.1.attention", "MultiHeadAttention")


def test_a_hook_that_changes_what_a_module_gives_is_its_part():
    model = tiny("gpt2")
    model.get_submodule("transformer.h.2.mlp").register_forward_hook(
        lambda _, args, out: blend(out)
    )
    assert future_entry(model) == Entry("transformer.h.2.mlp", "GPT2MLP")


@pytest.mark.parametrize("name", [*CAUSAL, "albert"])
def test_rows_that_mix_are_seen_whichever_way_modules_lay_them(name):
    model = tiny(name)
    ids = ids_of(2)
    at = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    linear = ("Linear", "BloomGelu", "FalconLinear", "Conv1D")
    path, kind = [
        (p, type(m).__name__) for p, m in model.named_modules() if type(m).__name__ in linear
    ][4]

    def found() -> Entry | None:
        a = trace(model, lambda: model(ids), LENGTH, 2)
        b = trace(model, lambda: model(edited(ids)), LENGTH, 2)
        return entry(a, b, at, tolerance=1e-9)

    assert found() is None
    model.get_submodule(path).register_forward_hook(
        lambda _, args, out: out + 0.1 * out.mean(tuple(range(out.dim() - 1)), keepdim=True)
    )
    assert found() == Entry(path, kind)


def test_a_shared_layer_is_named_from_its_second_call_on():
    model = tiny("albert")
    path = "encoder.albert_layer_groups.0.albert_layers.0.ffn"
    calls = []

    def second(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        calls.append(0)
        return out + out.mean(0, keepdim=True) if len(calls) % 3 == 2 else out

    model.get_submodule(path).register_forward_hook(second)
    ids = ids_of(2)
    a = trace(model, lambda: model(ids), LENGTH, 2)
    b = trace(model, lambda: model(edited(ids)), LENGTH, 2)
    assert len([c for c in a.ended() if c.path == path]) == 3
    at = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    found = entry(a, b, at, tolerance=1e-9)
    assert found == Entry(path, "Linear")


def by_gradient(model: nn.Module, embed: str, **options: Any) -> Entry | None:
    """Where a gradient leads from before EDITED to EDITED."""
    ids = ids_of()

    with torch.no_grad():
        source = model.get_submodule(embed)(ids).requires_grad_()
    handle = model.get_submodule(embed).register_forward_hook(lambda _, args, out: source)
    keys = torch.arange(LENGTH)[None] == EDITED
    found = entry_by_gradient(model, lambda: model(ids), source, keys, before(), **options)
    handle.remove()
    return found


EMBED = {
    "llama": "model.embed_tokens",
    "mixtral": "model.embed_tokens",
    "gpt2": "transformer.wte",
    "bloom": "transformer.word_embeddings",
    "falcon": "transformer.word_embeddings",
    "mamba": "backbone.embeddings",
}


@pytest.mark.parametrize("name", EMBED)
def test_by_gradient_influences_too_small_for_values(name):
    model = tiny(name)
    assert by_gradient(model, EMBED[name]) is None
    path = f"{LAYERS[name]}.{PARTS[name][0]}"
    change_output(model, path, lambda x: x + 1e-30 * x.mean(-2, keepdim=True))
    assert future_entry(model) is None
    assert by_gradient(model, EMBED[name]) == Entry(path, type(model.get_submodule(path)).__name__)


@pytest.mark.parametrize(
    "path", ["blocks.1.attention", "blocks.0.ffn.w_in", "final_norm", "blocks.2"]
)
def test_by_gradient_in_ours(path):
    model = ours()
    assert by_gradient(model, "embedding.tokens") is None
    change_output(model, path, lambda x: x + 1e-30 * torch.roll(x, -1, 1))
    found = by_gradient(model, "embedding.tokens")
    assert found is not None
    assert found.module == path


def test_by_gradient_sums_do_not_cancel():
    model = ours()
    change_output(model, "blocks.1.ffn", lambda x: x + x.flip(1) - x.flip(1).mean(-1, keepdim=True))
    model.final_norm = nn.LayerNorm(16, dtype=torch.float64)
    assert by_gradient(model, "embedding.tokens") == Entry("blocks.1.ffn", "FeedForward")


def test_by_gradient_what_is_below_the_tolerance_is_none():
    model = ours()
    change_output(model, "blocks.1.ffn", lambda x: x + 1e-12 * torch.roll(x, -1, 1))
    assert by_gradient(model, "embedding.tokens", tolerance=1e-9) is None
