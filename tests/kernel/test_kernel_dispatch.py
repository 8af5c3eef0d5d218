"""Which path a call takes, and what is said where the kernel does not fit it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_help import forced, scores_of

from headwise import attend
from headwise.core import kernel, masks, plain
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure
from headwise.names import ConfigError, ShapeError

Q = torch.randn(2, 4, 6, 16)
CAUSAL = masks.causal()
HOLES = masks.tensor(torch.eye(6, dtype=torch.bool) | (torch.arange(6) == 0))
PER_HEAD = masks.tensor(
    torch.ones(1, 4, 6, 6, dtype=torch.bool).tril() & (torch.arange(4) < 2)[:, None, None]
)


def call(x: torch.Tensor = Q, mask: Any = CAUSAL, **extra: Any) -> Scores:
    return Scores(x, x, mask, 0.25, **extra)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    if not kernel.status().runs:
        pytest.skip(kernel.status().why)


@pytest.mark.usefixtures("built", "unchecked")
@pytest.mark.parametrize(
    ("scores", "wanted", "why"),
    [
        (call(), Wanted(), None),
        (call(bias=torch.zeros(1, 1, 6, 6)), Wanted(), "the kernel has no bias"),
        (call(softcap=5.0), Wanted(), "the kernel has no softcap"),
        (call(sink=torch.zeros(4)), Wanted(), "the kernel has no sink"),
        (call(Q.double()), Wanted(), "takes float32 and bfloat16, q is float64"),
        (call(Q[..., :8]), Wanted(), "takes a head_dim from 16 to 256, came 8"),
        (call(Q.to("meta")), Wanted(), "runs on the CPU, q is on meta"),
        (call(mask=HOLES), Wanted(), "more than one run of keys"),
        (call(mask=PER_HEAD), Wanted(), "tells heads apart"),
        (call(), Wanted(top=33), "top=33 is more than 32"),
        (call(), Wanted(functions={"x": lambda block: block.pattern.sum(-1)}), "functions"),
    ],
)
def test_what_the_kernel_refuses(scores: Scores, wanted: Wanted, why: str | None) -> None:
    said = kernel.refuses(scores, scores.k, wanted)
    if why is None:
        assert said is None
        return
    assert said is not None
    assert why in said
    with pytest.raises(ConfigError, match=f"the kernel does not fit this call: .*{why}"):
        measure(scores, scores.k, wanted, path="kernel")


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("mask", [CAUSAL, HOLES])
def test_auto_takes_the_kernel_where_it_fits(mask, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(kernel._Call, "run", lambda self: ran.append(1) or self.z.transpose(1, 2))
    measure(call(mask=mask), Q, Wanted())
    assert ran == ([1] if mask is CAUSAL else [])


@pytest.mark.usefixtures("built", "unchecked")
def test_under_functorch_the_kernel_steps_back() -> None:
    one = torch.func.vmap(lambda x: attend(x[None], x[None], x[None], CAUSAL)[0])
    x = torch.randn(2, 4, 300, 16)
    torch.testing.assert_close(one(x), attend(x, x, x, CAUSAL))


def test_off_and_wrong_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "off")
    assert kernel.status() == kernel.KernelStatus("portable", "HEADWISE_KERNEL=off")
    assert kernel.refuses(call(), Q, Wanted()) == "HEADWISE_KERNEL=off"
    monkeypatch.setenv(kernel.VARIABLE, "sse")
    with pytest.raises(
        ConfigError, match="HEADWISE_KERNEL='sse' is no path; set it to avx512, avx2"
    ):
        measure(call(), Q, Wanted())


def test_without_the_module_the_portable_path_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    monkeypatch.setattr(kernel, "module_or_why", lambda: (None, "the kernel is not built"))
    kernel._status.cache_clear()
    try:
        assert kernel.status() == kernel.KernelStatus("portable", "the kernel is not built")
        z, _ = measure(call(), Q, Wanted())
        torch.testing.assert_close(z, attend(Q, Q, Q, CAUSAL))
    finally:
        kernel._status.cache_clear()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        (
            Wanted(probes=torch.zeros(2, 1, 5).long()),
            r"probes must be \[batch or 1=2, probe, query=6\]",
        ),
        (Wanted(eligible=torch.ones(3, 6).bool()), r"eligible must be \[batch or 1=2, key=6\]"),
        (
            Wanted(query_lengths=torch.ones(1).long()),
            r"query_lengths must be \[batch=2\], came \[1\]",
        ),
        (Wanted(key_lengths=torch.ones(3).long()), r"key_lengths must be \[batch=2\]"),
        (Wanted(top=-1), "top must be at least 0, came -1"),
        (Wanted(pool=-2), "pool must be at least 0"),
    ],
)
@pytest.mark.parametrize("path", ["auto", "portable"])
def test_wrong_shapes_are_said_at_once(wanted: Wanted, line: str, path) -> None:
    with pytest.raises(ShapeError, match=line):
        measure(call(), Q, wanted, path=path)


@pytest.mark.parametrize("name", kernel.SETS)
@pytest.mark.parametrize(
    "mask", [None, CAUSAL, masks.window(9), CAUSAL & masks.padding(lengths=[600, 9])]
)
def test_attend_by_the_kernel_is_attend(name: str, mask, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 600, 32), *torch.randn(2, 2, 2, 600, 32)
    with torch.no_grad():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(kernel.VARIABLE, "off")
            right = attend(q, k, v, mask)
        with forced(name):
            assert plain.attention(scores_of(q, k, mask), v, "dense") is not None
            torch.testing.assert_close(attend(q, k, v, mask), right, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("built")
def test_attend_with_gradients_is_not_the_kernels() -> None:
    q = torch.randn(1, 2, 600, 32, requires_grad=True)
    assert plain.attention(scores_of(q, q, CAUSAL), q, "causal") is None
    attend(q, q, q, CAUSAL).sum().backward()
    assert q.grad is not None


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("dtype", "queries", "runs"),
    [(torch.bfloat16, 1, not plain.TILES), (torch.bfloat16, 4, False), (torch.float32, 1, False)],
)
def test_one_query_of_bfloat16_is_the_kernels(
    dtype: torch.dtype, queries: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = (torch.randn(2, 4, n, 16).to(dtype) for n in (queries, 40, 40))
    padding = torch.zeros(2, 40, dtype=torch.bool)
    padding[1, :7] = True
    ran, run = [], kernel._Call.run
    monkeypatch.setattr(kernel._Call, "run", lambda self: ran.append(1) or run(self))
    for mask in (CAUSAL, CAUSAL & masks.padding(key_padding_mask=padding)):
        got = attend(q, k, v, mask)
        exact = attend(q.double(), k.double(), v.double(), mask)
        torch.testing.assert_close(got.double(), exact, atol=8e-3, rtol=1e-2)
    assert len(ran) == 2 * runs
