"""Who may attend does not depend on the path: weights asked or not, train, eval, compiled, derived twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from headwise.core import masks
from headwise.core.attention import attend
from headwise.nn import MultiHeadAttention

N = 36
BITS = torch.rand(2, 1, N, N, generator=torch.Generator().manual_seed(0)) < 0.5
MASKS = {
    "none": None,
    "full": masks.full(),
    "causal": masks.causal(),
    "chunked": masks.window(4),
    "chunked ahead": masks.window(3, ahead=4),
    "chunked padded": masks.window(5) & masks.padding(lengths=[N, 7]),
    "padded": masks.causal() & masks.padding(key_padding_mask=(torch.arange(N) < 3).expand(2, N)),
    "documents": masks.causal() & masks.documents(torch.arange(N) // 5),
    "prefix": masks.causal() | masks.prefix([4, 9]),
    "tensor": masks.tensor(BITS) & masks.causal(),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def draw(dtype=torch.float64, batch=2, heads=2, kv_heads=1, n=N, dim=2):
    return [
        torch.randn(batch, h, n, dim, dtype=dtype).requires_grad_()
        for h in (heads, kv_heads, kv_heads)
    ]


def gradients(z, parts):
    return torch.autograd.grad(z.sin().sum(), parts)


@every_mask
@pytest.mark.parametrize("gated", [False, True])
def test_asking_changes_nothing(mask, gated):
    parts = draw()
    gate = torch.tensor([0.5, 2.0], dtype=torch.float64) if gated else None
    plain = attend(*parts, mask, gate=gate)
    slopes = gradients(plain, parts)
    sight = []
    for z in (
        attend(*parts, mask, gate=gate, return_pattern=True)[0],
        attend(*parts, mask, gate=gate, observers=[lambda s, v, z: sight.append(s.rows())]),
        attend(*parts, mask, gate=gate, bias=torch.zeros(1, 1, N, N, dtype=torch.float64)),
        attend(*parts, mask, gate=gate, sink=torch.full((2,), -1e4, dtype=torch.float64)),
        attend(*parts, mask, gate=gate, softcap=1e8),
        attend(*parts, mask, gate=gate, query_offset=0),
    ):
        assert_close(z, plain)
        for slope, expected in zip(gradients(z, parts), slopes, strict=True):
            assert_close(slope, expected)
    if mask is not None:
        hidden = ~mask.dense(N, N).expand(2, 2, N, N)
        assert not sight[0][hidden].any()


@every_mask
def test_training_changes_only_what_dropout_drops(mask):
    x = torch.randn(2, N, 8)
    plain = MultiHeadAttention(8, 2).double()
    dropping = MultiHeadAttention(8, 2, dropout=0.3).double()
    dropping.load_state_dict(plain.state_dict())
    x = x.double()
    assert_close(dropping.eval()(x, mask), plain.train()(x, mask))
    hidden = torch.zeros(2, N, dtype=torch.bool)
    if mask is not None:
        hidden = ~mask.dense(N, N).expand(2, 1, N, N)[:, 0, 20]
    moved = torch.where(hidden[..., None], torch.randn_like(x), x)
    moved[:, 20] = x[:, 20]
    dropping.train()
    torch.manual_seed(3)
    before = dropping(x, mask)[:, 20]
    torch.manual_seed(3)
    assert_close(dropping(moved, mask)[:, 20], before)


@every_mask
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_the_same(mask):
    torch._dynamo.reset()
    parts = draw(torch.float32)

    def call(q, k, v):
        return attend(q, k, v, mask)

    compiled = torch.compile(call, backend="eager", fullgraph=True)
    plain = call(*parts)
    assert_close(compiled(*parts), plain)
    for slope, expected in zip(
        gradients(compiled(*parts), parts), gradients(plain, parts), strict=True
    ):
        assert_close(slope, expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", [{"return_pattern": True}, {"softcap": 3.0}])
def test_compiled_with_options(options):
    torch._dynamo.reset()
    parts = draw(torch.float32)
    mask = MASKS["padded"]

    def call(q, k, v):
        return attend(q, k, v, mask, gate=torch.tensor([1.0, 0.5]), **options)

    assert_close(torch.compile(call, backend="eager", fullgraph=True)(*parts), call(*parts))


COMPILED = f"""
import torch
from headwise.core import masks
from headwise.core.attention import attend

def call(q, k, v):
    return attend(q, k, v, masks.window(5) & masks.padding(lengths=[{N}, 7]))

torch.manual_seed(0)
q, k, v = (torch.randn(2, heads, {N}, 2) for heads in (2, 1, 1))
compiled = torch.compile(call, backend="inductor")
torch.testing.assert_close(compiled(q, k, v), call(q, k, v))
print("the same")
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_compiled_to_machine_code():
    """In a process of its own: inductor minds what was imported before it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )
    assert done.stdout == "the same\n", done.stderr[-2000:]


SHORT = {
    "none": (None, 4),
    "causal": (masks.causal(), 4),
    "chunked": (masks.window(1), 4),
    "chunked, two blocks": (masks.window(2), 34),
    "chunked padded": (masks.window(2) & masks.padding(lengths=[5, 0]), 8),
    "dense": (masks.causal() & masks.padding(lengths=[4, 2]), 4),
    "tensor": (masks.tensor(torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()), 3),
}
short_masks = pytest.mark.parametrize(("mask", "n"), SHORT.values(), ids=SHORT)


def test_the_chunked_ones_are():
    for name, (mask, n) in SHORT.items():
        assert name.startswith("chunked") == (mask is not None and mask.form(n, n) == "chunked")


@short_masks
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_gradcheck(mask, n, kv_heads):
    parts = draw(n=n, kv_heads=kv_heads, dim=1 if n > 8 else 2, batch=1 if n > 8 else 2)
    assert gradcheck(lambda q, k, v: attend(q, k, v, mask), parts)
    if n > 8:
        return
    assert gradcheck(lambda q, k, v: attend(q, k, v, mask, return_pattern=True), parts)
    extras = [
        torch.randn(shape, dtype=torch.float64).requires_grad_()
        for shape in ((1, 2, n, n), (2,), (2,))
    ]

    def everything(q, k, v, bias, sink, gate):
        return attend(q, k, v, mask, bias=bias, sink=sink, gate=gate, softcap=2.0)

    assert gradcheck(everything, [*parts, *extras])
    assert gradcheck(lambda q, k, v, b: attend(q, k, v, mask, bias=b), [*parts, extras[0]])


@short_masks
def test_gradgradcheck(mask, n):
    """torch derives twice only its open kernel, and our explicit path."""
    parts = draw(n=n, dim=1, batch=1 if n > 8 else 2)
    if n > 8:
        parts = [x[:, :1].detach().requires_grad_() for x in parts]
    with sdpa_kernel(SDPBackend.MATH):
        assert gradgradcheck(lambda q, k, v: attend(q, k, v, mask), parts)
    if n <= 8:
        explicit = [x.detach().requires_grad_() for x in parts]
        assert gradgradcheck(lambda q, k, v: attend(q, k, v, mask, softcap=2.0), explicit)


@every_mask
def test_inputs_laid_out_in_any_way(mask):
    """Heads split from a packed projection are strided; so is a transposed gradient."""
    packed = torch.randn(2, N, 3 * 2 * 4, dtype=torch.float64, requires_grad=True)
    q, k, v = packed.view(2, N, 6, 4).transpose(1, 2).chunk(3, 1)
    z = attend(q, k, v, mask)
    assert_close(z, attend(q.contiguous(), k.contiguous(), v.contiguous(), mask))
    nn.functional.linear(z.transpose(1, 2).flatten(2), torch.eye(8).double()).sum().backward()
    assert packed.grad.isfinite().all()
