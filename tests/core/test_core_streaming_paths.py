"""attend with a meter: the same outputs and gradients as without, on every path, and the same statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headwise.core import masks, portable
from headwise.core.attention import attend
from headwise.core.scores import Scores
from headwise.core.streaming import Statistics, Wanted

N = 37
MASKS = {
    "full": None,
    "causal": masks.causal(),
    "window": masks.window(4),
    "padded": masks.causal() & masks.padding(lengths=[N, 20]),
    "blind": masks.padding(lengths=[0, N]),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pattern": {"return_pattern": True},
    "softcap": {"softcap": 3.0},
    "sink": {"sink": torch.tensor([0.3, -1.0, 2.0, 0.0])},
    "bias": {"bias": torch.linspace(-1, 1, N * N).view(1, 1, N, N)},
    "gate": {"gate": torch.tensor([1.0, 0.0, 0.5, 2.0])},
    "dropout": {"dropout": 0.4},
}


class Meter:
    """Keeps the statistics of each call."""

    def __init__(self) -> None:
        self.kept: list[Statistics] = []

    def __call__(self, scores: Scores, v: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        z, found = portable.measure(scores, v, Wanted(top=2, received=True, pool=4))
        self.kept.append(found)
        return z


def parts(queries: int = N, keys: int = N) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, h, n, 4) for h, n in ((4, queries), (2, keys), (2, keys))]


def both(*call: Any, **options: Any) -> tuple[Any, Any, Statistics]:
    """What attend gives without and with a meter, and what the meter kept."""
    torch.manual_seed(2)
    plain = attend(*call, **options)
    meter = Meter()
    torch.manual_seed(2)
    metered = attend(*call, **options, meter=meter)
    (found,) = meter.kept
    return plain, metered, found


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_meter_changes_no_output(mask: masks.Mask | None, options: dict[str, Any]) -> None:
    with torch.no_grad():
        plain, metered, _ = both(*parts(), mask, **options)
    assert_close(metered, plain)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_meter_changes_no_gradient(mask: masks.Mask | None, options: dict[str, Any]) -> None:
    inputs = [x.requires_grad_() for x in parts()]
    grads = []
    for out in both(*inputs, mask, **options)[:2]:
        z = out[0] if isinstance(out, tuple) else out
        grads.append(torch.autograd.grad(z.square().sum(), inputs))
    for plain, metered in zip(*grads, strict=True):
        assert plain.any()
        assert torch.equal(plain, metered)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_training_dropout_and_gates_change_no_statistic(options: dict[str, Any]) -> None:
    kept = {name: value for name, value in options.items() if name in ("softcap", "sink", "bias")}
    with torch.no_grad():
        expected = both(*parts(), MASKS["padded"], **kept)[2]
    found = both(*[x.requires_grad_() for x in parts()], MASKS["padded"], **options)[2]
    for name in ("entropy", "distance", "largest", "top_weights", "received", "pooled"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("mask", [masks.causal(), masks.window(4)])
def test_cached_steps_have_the_rows_of_the_whole(mask: masks.Mask) -> None:
    q, k, v = parts()
    with torch.no_grad():
        whole, metered, all_rows = both(q, k, v, mask)
        assert_close(metered, whole)
        for first, stop in ((0, 9), (9, 10), (10, N)):
            meter = Meter()
            call = q[:, :, first:stop], k[:, :, :stop], v[:, :, :stop], mask
            assert_close(attend(*call, meter=meter), whole[:, :, first:stop])
            for name in ("entropy", "distance", "largest", "visible", "top_keys"):
                rows = getattr(all_rows, name)[:, :, first:stop]
                assert_close(getattr(meter.kept[0], name), rows)


def test_a_meter_sees_no_gate_and_observers_see_the_meters_z() -> None:
    meter, seen = Meter(), []
    with torch.no_grad():
        attend(
            *parts(),
            gate=torch.zeros(4),
            meter=meter,
            observers=[lambda scores, v, z: seen.append(z)],
        )
        assert_close(seen[0], attend(*parts()))
    assert meter.kept[0].largest.all()
