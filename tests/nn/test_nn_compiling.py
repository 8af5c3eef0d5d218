"""torch.compile: one graph without breaks, and the same one for every length and batch."""

from __future__ import annotations

import shutil
from typing import get_args

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from headwise.nn import Decoder, Encoder, EncoderDecoder
from headwise.nn.config import Positions

pytestmark = pytest.mark.usefixtures("unchecked")
SHAPES = [(2, 7), (3, 9), (2, 14)]
GRID = [
    *((Encoder, None, positions) for positions in ("sinusoidal", "learned", "relative")),
    *((Decoder, 4, positions) for positions in ("rope", "alibi", "relative", "none")),
]
"""Every scheme of positions, and relative ones in both directions."""


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def padded(batch, length):
    """Ids, and their padding: the first row is short, on the left."""
    padding = torch.zeros(batch, length, dtype=torch.bool)
    padding[0, :3] = True
    return torch.randint(0, 31, (batch, length)), padding


def gradients(model):
    held = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    return held


def assert_one_graph(model, calls, backend="eager"):
    """Compiled once for all calls, with the outputs and gradients of the model as it is."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for given, named in calls:
            torch.manual_seed(1)
            wanted = model(*given, **named)
            wanted.logsumexp(-1).sum().backward()
            slopes = gradients(model)
            torch.manual_seed(1)
            came = compiled(*given, **named)
            came.logsumexp(-1).sum().backward()
            assert_close(came, wanted, atol=1e-5, rtol=1e-5)
            assert_close(gradients(model), slopes, atol=1e-4, rtol=1e-4)


def test_the_grid_has_every_scheme():
    assert {positions for *_, positions in GRID} == set(get_args(Positions))


@pytest.mark.parametrize(("kind", "window", "positions"), GRID)
def test_one_graph_for_every_length(tiny, kind, positions, window):
    model = kind(tiny(positions=positions, window=window))
    assert_one_graph(model, [(padded(*shape), {}) for shape in SHAPES])


@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_without_padding_and_with_documents(tiny, kind):
    model = kind(tiny())
    assert_one_graph(model, [(padded(*shape)[:1], {}) for shape in SHAPES])
    packed = [padded(*shape) for shape in SHAPES]
    assert_one_graph(model, [((ids,), {"documents": ends.long()}) for ids, ends in packed])


def test_encoder_decoder(tiny):
    model = EncoderDecoder(tiny(activation="swiglu", norm="rms", norm_position="post"))
    sources = [padded(*shape) for shape in SHAPES]
    calls = [((ids, ids[:, 2:].flip(1), padding), {}) for ids, padding in sources]
    assert_one_graph(model, calls)


def test_a_long_window_takes_one_more_graph_at_most(tiny):
    model = Decoder(tiny(window=3))
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for length in (7, 9, 11, 12, 13, 16, 30):
        ids = torch.randint(0, 31, (2, length))
        assert_close(compiled(ids), model(ids), atol=1e-5, rtol=1e-5)
    assert counter.frame_count == 2  # dense, then block by block from 4 windows on


def test_autocast(tiny):
    model = Decoder(tiny())
    ids = torch.randint(0, 31, (2, 9))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        came, wanted = compiled(ids), model(ids)
    assert_close(came, wanted)
    came.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_gradients_through_aot_autograd(tiny):
    model = Decoder(tiny(positions="alibi", window=4))
    assert_one_graph(model, [(padded(*shape), {}) for shape in SHAPES], "aot_eager")


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler (g++)")
def test_inductor(tiny):
    model = Decoder(tiny(num_layers=1))
    assert_one_graph(model, [(padded(*shape), {}) for shape in SHAPES[:2]], "inductor")


@torch.no_grad()
@pytest.mark.parametrize(("positions", "window"), [("rope", 3), ("relative", None)])
def test_cached_steps_share_a_graph(tiny, positions, window):
    model = Decoder(tiny(positions=positions, window=window)).eval()
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    ids, padding = padded(2, 14)
    cache = model.new_cache(16)
    steps = [compiled(ids[:, :6].clone(), padding[:, :6].clone(), cache)]
    graphs = []
    for token in ids[:, 6:].split(1, dim=1):
        steps.append(compiled(token.clone(), cache=cache))
        graphs.append(counter.frame_count)
    assert graphs == [2] * 8  # the prompt's, and one for all steps
    assert_close(torch.cat(steps, 1)[~padding], model(ids, padding)[~padding], atol=1e-5, rtol=1e-5)
