"""Models that were cut, as ONNX files that answer the same at other batch sizes and lengths."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from save_families import checkpoint, main_output
from torch import Tensor
from torch.testing import assert_close

import headwise as hw
from headwise.cut.example import example
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.saving import onnx
from headwise.names import ModelError, OutputError

needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="pip install headwise[onnx]",
)

HEADS = {
    "llama": "0.1, 1.4-5",
    "gpt2": "0.1-2, 1.*",
    "bert": "0.3",
    "mistral": "0.1, 1.*",
    "t5": "encoder.0.1, cross.1.2",
}


def cut(name: str, folder: Path) -> hw.Model:
    return cut_heads(hw.load(checkpoint(name, folder / "before"), quiet=True), HEADS[name])


def answer(model: hw.Model, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return main_output(model.outputs(inputs))


@needs_onnx
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", HEADS)
def test_a_cut_model_answers_the_same_in_onnxruntime(name: str, tmp_path: Path) -> None:
    import onnxruntime

    model = cut(name, tmp_path)
    made = hw.export_onnx(model, tmp_path / "model.onnx")
    assert made.off < 1e-5
    session = onnxruntime.InferenceSession(made.path)
    assert [x.name for x in session.get_outputs()] == [made.output]
    given = {k: v[:3, :4].contiguous() for k, v in example(model).items() if k in made.inputs}
    (found,) = session.run(None, {k: v.numpy() for k, v in given.items()})
    assert_close(torch.from_numpy(found), answer(model, given), atol=1e-5, rtol=1e-5)


@needs_onnx
@pytest.mark.usefixtures("unchecked")
def test_a_graph_that_answers_otherwise_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cut("bert", tmp_path)
    (tmp_path / "model.onnx").write_text("old")
    run = onnx._run
    monkeypatch.setattr(onnx, "_run", lambda *given: (run(*given)[0], run(*given)[1] + 0.1))
    with pytest.raises(ModelError, match=r"answers otherwise than it does, .* off; nothing is"):
        hw.export_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "old"


@needs_onnx
@pytest.mark.usefixtures("unchecked")
def test_a_model_that_is_no_graph_is_refused_in_one_line(tmp_path: Path) -> None:
    class Counting(hw.nn.Encoder):
        def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
            return super().forward(ids[:, : int(ids.max())], None)

    made = hw.nn.TransformerConfig(vocab_size=31, d_model=24, num_layers=1, num_heads=6)
    with pytest.raises(ModelError, match=r"cannot be written as ONNX: torch\.onnx stops") as caught:
        hw.export_onnx(hw.load(Counting(made)), tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model.onnx").exists()


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda name: None)
    with pytest.raises(OutputError, match=r"without onnx, onnxscript, onnxruntime; pip install"):
        hw.export_onnx(cut("bert", tmp_path), tmp_path / "model.onnx")


def test_what_one_file_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda name: name)
    monkeypatch.setattr(onnx, "_MOST_BYTES", 1000)
    model = cut("bert", tmp_path)
    with pytest.raises(OutputError, match="GB of weights, and one ONNX file holds"):
        hw.export_onnx(model, tmp_path / "model.onnx")
    with pytest.raises(OutputError, match="it is a folder"):
        hw.export_onnx(model, tmp_path)
