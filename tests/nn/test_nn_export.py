"""torch.export and ONNX: one graph for any batch and length, with the answers of the model."""

from __future__ import annotations

from importlib.util import find_spec
from typing import get_args

import pytest
import torch
from torch.export import Dim, export
from torch.testing import assert_close

import headwise as hw
from headwise.nn import Decoder, Encoder, EncoderDecoder
from headwise.nn.config import Positions

pytestmark = pytest.mark.usefixtures("unchecked")
needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="pip install headwise[onnx]",
)
SHAPES = [(1, 2), (2, 7), (3, 12), (5, 31)]
GRID = [
    *((Encoder, None, positions) for positions in ("sinusoidal", "learned", "relative")),
    *((Decoder, 3, positions) for positions in ("rope", "alibi", "relative", "none")),
]
"""Every scheme of positions, and relative ones in both directions."""


def padded(batch, length, left=False):
    """Ids, and their padding: the first row is short."""
    ids = torch.randint(0, 31, (batch, length))
    padding = torch.zeros(batch, length, dtype=torch.bool)
    padding[0, slice(1) if left else slice(length - 1, None)] = True
    return ids, padding


def of_source(batch, length):
    source, padding = padded(batch, length)
    return source, torch.randint(0, 31, (batch, length + 3)), padding


def test_the_grid_has_every_scheme():
    assert {positions for *_, positions in GRID} == set(get_args(Positions))


@pytest.mark.parametrize(("kind", "window", "positions"), GRID)
def test_one_graph_for_any_batch_and_length(tiny, kind, positions, window):
    model = kind(tiny(positions=positions, window=window)).eval()
    free = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=32)}
    graph = export(model, padded(3, 9), dynamic_shapes=(free, free)).module()
    for shape in SHAPES:
        for left in (False, True):
            given = padded(*shape, left=left)
            assert_close(graph(*given), model(*given), atol=1e-5, rtol=1e-5)


def test_a_graph_of_one_shape(tiny):
    model = Decoder(tiny(window=3)).eval()
    graph = export(model, (torch.randint(0, 31, (3, 12)),)).module()
    ids = torch.randint(0, 31, (3, 12))
    assert_close(graph(ids), model(ids), atol=1e-5, rtol=1e-5)


def test_packed_documents_in_one_graph(tiny):
    model = Decoder(tiny()).eval()
    free = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=32)}
    ids, ends = padded(3, 9)
    given = {"ids": ids, "documents": ends.long()}
    graph = export(model, (), given, dynamic_shapes={"ids": free, "documents": free}).module()
    for shape in SHAPES:
        ids, ends = padded(*shape)
        given = {"ids": ids, "documents": ends.long()}
        assert_close(graph(**given), model(**given), atol=1e-5, rtol=1e-5)


def test_encoder_decoder_in_one_graph(tiny):
    model = EncoderDecoder(tiny(positions="relative")).eval()
    batch, source, target = (Dim(name, min=1, max=32) for name in ("batch", "source", "target"))
    shapes = ({0: batch, 1: source}, {0: batch, 1: target}, {0: batch, 1: source})
    graph = export(model, of_source(3, 9), dynamic_shapes=shapes).module()
    for shape in SHAPES[1:3]:
        given = of_source(*shape)
        assert_close(graph(*given), model(*given), atol=1e-5, rtol=1e-5)


class Told:
    """What an instance of onnxruntime answers, by name."""

    def __init__(self, path):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def __call__(self, **given):
        return torch.from_numpy(
            self.session.run(None, {name: x.numpy() for name, x in given.items()})[0]
        )


@needs_onnx
@pytest.mark.parametrize(
    ("kind", "positions"), [(Encoder, "learned"), (Decoder, "rope"), (Decoder, "alibi")]
)
def test_onnx_answers_as_the_model_at_any_length(tiny, tmp_path, kind, positions):
    model = kind(tiny(positions=positions)).eval()
    ids, padding = padded(3, 9)
    batch = {"input_ids": ids, "attention_mask": (~padding).long()}
    made = hw.export_onnx(hw.load(model), tmp_path / "model.onnx", batch)
    assert set(made.inputs) == {"input_ids", "attention_mask"}
    told = Told(made.path)
    for shape in SHAPES:
        ids, padding = padded(*shape)
        came = told(input_ids=ids, attention_mask=(~padding).long())
        wanted = model(ids, padding)
        assert_close(came[~padding], wanted[~padding], atol=1e-4, rtol=1e-4)


@needs_onnx
def test_onnx_of_an_encoder_decoder(tiny, tmp_path):
    model = EncoderDecoder(tiny()).eval()
    source, target, padding = of_source(3, 9)
    batch = {
        "input_ids": source,
        "attention_mask": (~padding).long(),
        "decoder_input_ids": target,
    }
    made = hw.export_onnx(hw.load(model), tmp_path / "model.onnx", batch)
    told = Told(made.path)
    for shape in SHAPES[1:3]:
        source, target, padding = of_source(*shape)
        given = {"input_ids": source, "attention_mask": (~padding).long()}
        of_target = {"decoder_attention_mask": torch.ones_like(target)}
        came = told(**given, **of_target, decoder_input_ids=target)
        assert_close(came, model(source, target, padding), atol=1e-4, rtol=1e-4)
