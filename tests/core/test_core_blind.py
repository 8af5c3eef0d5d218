"""A query that may see nothing: output 0, weights 0, finite gradients, in every form; NaNs come through."""

from __future__ import annotations

import pytest
import torch

from headwise.core import masks
from headwise.core.attention import attend

N = 40
ROW = torch.rand(N, N, generator=torch.Generator().manual_seed(1)) < 0.5
ROW[7] = False
MASKS = {
    "padding": masks.padding(lengths=[N, 0]),
    "left padding": masks.causal()
    & masks.padding(key_padding_mask=(torch.arange(N) < 9).expand(2, N)),
    "chunked": masks.window(4) & masks.padding(lengths=[N - 9, 0]),
    "chunked documents": masks.window(3, ahead=2)
    & masks.documents([1] * 20 + [2] * 20)
    & masks.padding(key_padding_mask=(torch.arange(N) % 20 < 8).expand(2, N)),
    "tensor": masks.tensor(ROW),
    "nothing": ~masks.full(),
}
OPTIONS = {
    "plain": {},
    "pattern": {"return_pattern": True},
    "softcap": {"softcap": 4.0},
    "sink": {"sink": torch.tensor([0.5, -1.0])},
    "dropout": {"dropout": 0.5},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_blind_rows(mask, options, biased, dtype):
    q, k, v = (torch.randn(2, h, N, 4, dtype=dtype).requires_grad_() for h in (2, 1, 1))
    bias = torch.randn(1, 2, N, N, dtype=dtype).requires_grad_() if biased else None
    out = attend(q, k, v, mask, bias=bias, **options)
    z, pattern = out if isinstance(out, tuple) else (out, None)
    blind = ~mask.dense(N, N).any(-1).expand(2, 2, N)
    assert blind.any()
    assert not z[blind].any()
    assert z.isfinite().all()
    if pattern is not None:
        assert not pattern[blind].any()
        assert pattern.isfinite().all()
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
        z.square().sum().backward()
    for x in (q, k, v, bias):
        assert x is None or x.grad.isfinite().all()
    assert not q.grad[blind].any()


def test_some_of_these_run_chunked():
    assert {name for name, mask in MASKS.items() if mask.form(N, N) == "chunked"} == {
        "chunked",
        "chunked documents",
    }


@pytest.mark.parametrize("options", [{}, {"return_pattern": True}, {"softcap": 4.0}])
@pytest.mark.parametrize(
    "mask", [None, masks.causal(), masks.window(4), masks.padding(lengths=[N, N - 1])]
)
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nans_of_the_input_come_through(mask, options, where):
    parts = {name: torch.randn(2, 2, N, 4) for name in "qkv"}
    parts[where][:, :, 5] = float("nan")
    out = attend(*parts.values(), mask, **options)
    z = out[0] if isinstance(out, tuple) else out
    seen = torch.ones(N, N, dtype=torch.bool) if mask is None else mask.dense(N, N)[0, 0]
    rows = torch.arange(N) == 5 if where == "q" else seen[:, 5]
    assert z[:, :, rows].isnan().all()
    if where == "q":
        assert z[:, :, ~rows].isfinite().all()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_blind_row_of_nan_is_still_nothing(mask):
    q, k, v = (torch.randn(2, 2, N, 4) for _ in range(3))
    blind = ~mask.dense(N, N).any(-1).expand(2, 2, N)
    q[blind] = float("nan")
    for z in (attend(q, k, v, mask), attend(q, k, v, mask, softcap=2.0)):
        assert not z[blind].any()
        assert z.isfinite().all()


@pytest.mark.parametrize("mask", [masks.causal(), masks.window(3, ahead=1)])
@pytest.mark.parametrize(("queries", "offset"), [(9, -4), (2, -2), (5, 10), (9, 2)])
def test_queries_beyond_the_keys(mask, queries, offset):
    q, (k, v) = torch.randn(1, 2, queries, 4), torch.randn(2, 1, 2, 5, 4)
    blind = ~mask.dense(queries, 5, query_offset=offset).any(-1).expand(1, 2, queries)
    q[blind] = float("nan")
    z = attend(q, k, v, mask, query_offset=offset)
    assert not z[blind].any()
    assert z.isfinite().all()


@pytest.mark.parametrize("mask", [None, masks.causal(), masks.padding(lengths=[4])])
@pytest.mark.parametrize("asked", [{}, {"return_pattern": True}, {"softcap": 3.0}])
def test_a_bias_of_minus_infinity_blinds_a_row_on_every_path(mask, asked):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    bias = torch.zeros(1, 1, 5, 5)
    bias[:, :, 2] = -torch.inf
    bias[:, :, 3, 1] = -torch.inf
    out = attend(q, k, v, mask, bias=bias, **asked)
    z = out[0] if isinstance(out, tuple) else out
    assert (z[:, :, 2] == 0).all()
    if isinstance(out, tuple):
        assert (out[1][:, :, 2] == 0).all()
        assert (out[1][:, :, 3, 1] == 0).all()
        torch.testing.assert_close(z, attend(q, k, v, mask, bias=bias))
    grads = torch.autograd.grad(z.sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)
