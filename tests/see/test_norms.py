"""Norm-based weights are those the definition gives from a model's own weights, and travel with the record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import headwise as hw

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

IDS = {"input_ids": torch.randint(0, 40, (1, 9), generator=torch.Generator().manual_seed(3))}


def own_parts(model, i: int, name: str) -> tuple[torch.Tensor, ...]:
    """W_V, b_V and W_O of a layer as its family names them, and the name of what its attention reads."""
    if name == "gpt2":
        attn = model.transformer.h[i].attn
        d = attn.c_proj.weight.shape[0]
        return attn.c_attn.weight[:, 2 * d :], attn.c_attn.bias[2 * d :], attn.c_proj.weight, attn
    if name == "llama":
        attn = model.model.layers[i].self_attn
        v = attn.v_proj.weight.T
        return v, torch.zeros(v.shape[1]), attn.o_proj.weight.T, attn
    attn = model.encoder.layer[i].attention
    own = attn.self.value
    return own.weight.T, own.bias, attn.output.dense.weight.T, attn.self


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_norms_are_what_the_definition_gives(name: str) -> None:
    module = build(name)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    record = hw.look(hw.load(module), IDS)[0]
    for i in range(2):
        w_v, b_v, w_o, attn = own_parts(module, i, name)
        read: list[torch.Tensor] = []

        def keep(_, given, named, read=read) -> None:
            read.append((given[0] if given else named["hidden_states"])[0].detach())

        hook = attn.register_forward_pre_hook(keep, with_kwargs=True)
        with torch.no_grad():
            module(**IDS)
        hook.remove()
        heads = record.layer_of(hw.HeadId("", i, 0)).num_heads
        kv_heads = record.layer_of(hw.HeadId("", i, 0)).num_kv_heads
        f = (read[0] @ w_v + b_v).unflatten(1, (kv_heads, -1))
        by_head = w_o.unflatten(0, (heads, -1))
        for h in range(heads):
            lengths = (f[:, h // (heads // kv_heads)] @ by_head[h]).norm(dim=-1)
            wanted = record.weights(f"{i}.{h}") * lengths.detach().double().numpy()
            np.testing.assert_allclose(record.norms(f"{i}.{h}"), wanted, rtol=1e-3, atol=1e-6)


def test_they_are_labelled_like_the_pattern(bytes_model) -> None:
    record = hw.look(bytes_model, "one two one")
    norms, pattern = record.norms("1.4"), record.pattern("1.4")
    assert norms.dims == pattern.dims
    assert list(norms.coords["query"].values) == list(pattern.coords["query"].values)
    assert norms.attrs["kv_group"] == 1
    words = record.norms("1.4", words=True)
    assert words.sizes == record.pattern("1.4", words=True).sizes
    assert "rule" in words.attrs
    assert "reason" not in norms.attrs


def test_each_text_of_a_batch_has_its_own(bytes_model) -> None:
    texts = ["one two one", "a longer text than that", "b"]
    for record, text in zip(hw.look(bytes_model, texts), texts, strict=True):
        alone = hw.look(bytes_model, text)
        for head in alone.heads():
            np.testing.assert_allclose(record.norms(head), alone.norms(head), rtol=1e-4, atol=1e-6)


def test_they_are_saved_with_the_record(bytes_model, tmp_path) -> None:
    record = hw.look(bytes_model, "one two one")
    record.save(tmp_path / "a.safetensors")
    again = hw.load_record(tmp_path / "a.safetensors")
    np.testing.assert_allclose(again.norms("1.4"), record.norms("1.4"), rtol=1e-6)


def test_an_older_file_says_that_it_has_none(bytes_model, tmp_path) -> None:
    path = tmp_path / "a.safetensors"
    hw.look(bytes_model, "one two one").save(path)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    layers = json.loads(header["layers"])
    for layer in layers:
        del layer["no_lengths"]
    tensors = {name: x for name, x in load_file(path).items() if not name.endswith("lengths")}
    save_file(tensors, path, metadata=header | {"layers": json.dumps(layers)})
    old = hw.load_record(path)
    assert old.norms("1.4").isnull().all()
    assert "look again" in old.norms("1.4").attrs["reason"]
    assert old.pattern("1.4").notnull().all()


def test_changed_weights_change_them(bytes_model) -> None:
    before = hw.look(bytes_model, "one two one")
    first = before.norms("1.4").copy()
    with torch.no_grad():
        bytes_model.module.blocks[1].attention.w_o.weight.mul_(2)
    after = hw.look(bytes_model, "one two one")
    np.testing.assert_allclose(after.norms("1.4"), 2 * first, rtol=1e-4)
    np.testing.assert_allclose(before.norms("1.4"), first)


def test_without_an_output_map_they_are_none_and_say_why() -> None:
    module = build("llama")
    for layer in module.model.layers:
        o_proj = layer.self_attn.o_proj
        layer.self_attn.o_proj = torch.nn.Sequential(torch.nn.LayerNorm(24), o_proj)
    norms = hw.look(hw.load(module), IDS)[0].norms("0.1")
    assert norms.isnull().all()
    assert "no linear map" in norms.attrs["reason"]


@pytest.mark.models
def test_norms_of_a_real_encoder() -> None:
    model = hw.load("minilm")
    record = hw.look(model, "The cat sat on the mat, and the dog slept.")
    attention = model.module.blocks[2].attention
    read: list[torch.Tensor] = []
    hook = attention.register_forward_pre_hook(lambda _, given: read.append(given[0][0]))
    hw.look(model, "The cat sat on the mat, and the dog slept.")
    hook.remove()
    rows = slice(2 * 384, 3 * 384)
    with torch.no_grad():
        f = read[0] @ attention.w_qkv.weight[rows].T + attention.w_qkv.bias[rows]
        made = torch.einsum(
            "khd,hdm->hkm", f.unflatten(1, (12, 32)), attention.w_o.weight.T.unflatten(0, (12, 32))
        )
    for h in range(12):
        wanted = record.weights(f"2.{h}") * made[h].norm(dim=-1).double().numpy()
        np.testing.assert_allclose(record.norms(f"2.{h}"), wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.models
def test_the_sink_gives_less_than_its_weight() -> None:
    record = hw.look(
        hw.load("smollm2"), "The animal didn't cross the street because it was too tired"
    )
    plain = np.mean([record.weights(h)[1:, 0].mean() for h in record.heads()])
    rows = [record.norm_weights(h)[1:] for h in record.heads()]
    taken = np.mean([(row[:, 0] / row.sum(1)).mean() for row in rows])
    assert plain > 0.6
    assert taken < plain - 0.1
