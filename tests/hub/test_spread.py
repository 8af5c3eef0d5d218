"""Models whose layers are on several devices, the CPU and the disk here: looked into as in one place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from tiny_models import build, inputs_of

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.names import ModelError

CPU = torch.device("cpu")


def half_on_disk(model, folder, path: str):
    """The model, saved and loaded again with everything under this path on disk."""
    model.save_pretrained(folder / "model")
    device_map = {
        name: "disk" if name.startswith(path) else "cpu"
        for name, part in model.named_modules()
        if next(part.parameters(recurse=False), None) is not None
    }
    return type(model).from_pretrained(
        folder / "model", device_map=device_map, offload_folder=folder / "offload"
    )


HALVES = {
    "llama": "model.layers",
    "gpt-oss": "model.layers",
    "bert": "encoder",
    "t5": "decoder.block",
    "whisper": "model.decoder.layers",
}


def assert_same(mine, whole) -> None:
    assert mine.heads() == whole.heads()
    for head in whole.heads():
        np.testing.assert_allclose(mine.weights(head), whole.weights(head), atol=1e-6, rtol=0)
    assert mine.verified < 1e-5


@pytest.mark.parametrize("name", HALVES)
def test_layers_on_disk(name: str, tmp_path) -> None:
    inputs = inputs_of(name)
    (whole,) = hw.look(hw.load(build(name)), inputs)
    model = half_on_disk(build(name), tmp_path, HALVES[name])
    places = {p.device.type for p in model.parameters()}
    assert places == {"cpu", "meta"}
    loaded = hw.load(model)
    (record,) = hw.look(loaded, inputs)
    assert_same(record, whole)
    assert {p.device.type for p in model.parameters()} == places


@pytest.mark.parametrize("name", ["llama", "gpt-oss", "bert", "t5"])
def test_every_layer_offloaded(name: str) -> None:
    """No weight is anywhere between runs; where inputs go is said by the hooks."""
    inputs = inputs_of(name)
    (whole,) = hw.look(hw.load(build(name)), inputs)
    loaded = hw.load(cpu_offload(build(name), execution_device=CPU))
    assert loaded.device == CPU
    (record,) = hw.look(loaded, inputs)
    assert_same(record, whole)


def test_a_gate_on_an_offloaded_layer() -> None:
    inputs, gate = inputs_of("llama"), torch.linspace(-1, 1, 6)
    outs = []
    for model in (build("llama"), cpu_offload(build("llama"), execution_device=CPU)):
        loaded = hw.load(model)
        taps = {loaded.anatomy.layers[1].module: Tap(gate=gate)}
        with loaded.open(), tapped(taps):
            outs.append(loaded.run(inputs).logits)
    torch.testing.assert_close(*outs)


def test_a_spread_model_is_not_moved() -> None:
    model = cpu_offload(build("llama"), execution_device=CPU)
    with pytest.raises(
        ModelError, match=r"LlamaForCausalLM is spread over devices.*leave device out"
    ):
        hw.load(model, device="cpu")


@pytest.mark.models
def test_a_real_model_half_on_disk(tmp_path) -> None:
    """SmolLM2 in transformers, its later layers on disk."""
    import transformers

    from headwise.hub.get import get

    folder = get("smollm2", quiet=True)
    tokenizer = hw.load("smollm2", quiet=True).tokenizer
    whole = transformers.AutoModelForCausalLM.from_pretrained(folder)
    parts = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    layers = {f"model.layers.{i}": "cpu" if i < 20 else "disk" for i in range(30)}
    half = transformers.AutoModelForCausalLM.from_pretrained(
        folder, device_map={**parts, "lm_head": "cpu", **layers}, offload_folder=tmp_path
    )
    text = "The keys to the cabinet are on the table."
    mine, plain = (hw.look(hw.load(m, tokenizer=tokenizer), text) for m in (half, whole))
    assert_same(mine, plain)
