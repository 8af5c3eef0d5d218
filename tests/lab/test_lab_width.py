"""C18: what the claim about the feed-forward network measures, and that its verdict can come out either way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bench_help import named, small_bench
from torch import nn

from headwise.lab.claims.width import CLAIM, DEEP, NARROW, NONE, TRADES, WIDE, built, moved
from headwise.lab.results import Results, Row


def made(extra: dict[str, float], noise: float = 0.005, others: float = 0.0) -> Results:
    """Losses that fall with the width; `extra` to that of none, of d and of 4 blocks."""
    luck = np.random.default_rng(1)
    more = {"none": 0.3, "narrow": 0.1, "deep": 0.05, **extra}
    cases = {"none": NONE, "narrow": NARROW, "deep": DEEP}
    rows = []
    for seed in range(4):
        for case in CLAIM.cases(False):
            name = next((name for name, one in cases.items() if one == case), "")
            numbers = {
                "parameters": 1e5 + 1e4 * float(case["d_ff / d"]),
                "loss": 3 + more.get(name, 0) + noise * luck.normal(),
            }
            if case != NONE:
                numbers.update(own=1.0, others=others)
            rows.append(Row(case, seed, numbers))
    return Results(rows)


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        (made({}), "holds"),
        (made({"deep": -0.05}), "holds up to"),
        (made({"none": -0.3}), "fails here"),
        (made({}, others=1e-6), "fails here"),
        (made({}, noise=0.5), "not settled"),
    ],
)
def test_verdict(results: Results, kind: str) -> None:
    assert CLAIM.judge(results).kind == kind


def test_the_trades_have_equally_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    counts = set()
    for case in TRADES:
        blocks = built(bench, case, 0).blocks
        counts.add(sum(p.numel() for p in blocks.parameters() if p.dim() == 2))
    assert len(TRADES) == 4
    assert counts == {24 * 64 * 64}


def test_a_gated_network_has_the_weights_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    plain, gated = (
        sum(p.numel() for p in built(bench, case, 0).blocks[0].ffn.parameters() if p.dim() == 2)
        for case in (WIDE, next(c for c in CLAIM.cases(False) if c["activation"] == "swiglu"))
    )
    assert abs(gated / plain - 1) < 0.005


def test_width_0_has_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    blocks = built(bench, NONE, 0).blocks
    assert not any(p.numel() for block in blocks for p in block.ffn.parameters())
    found = CLAIM.measure(bench, NONE, 0)
    assert "others" not in found


def test_measures_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = small_bench(monkeypatch)
    found = CLAIM.measure(bench, NARROW, 0)
    assert found["others"] == 0
    assert found["own"] > 0
    assert CLAIM.measure(bench, NARROW, 0) == found


class Mixing(nn.Module):
    """No feed-forward network: it adds a little of the position before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * x.roll(1, dims=1)


def test_a_network_that_mixes_positions_is_seen() -> None:
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0))
    own, others = moved(Mixing(), x, 0)
    assert own > others > 0
    assert moved(nn.Identity(), x, 0)[1] == 0


def test_panels_and_facts() -> None:
    results = made({})
    by_weights, trades = CLAIM.panels(results)
    assert [line.name.en for line in by_weights.lines] == ["2 blocks, GELU", "relu", "swiglu"]
    assert [tick.en for tick in trades.ticks] == ["1 x 10 d", "2 x 4 d", "3 x 2 d", "4 x 1 d"]
    facts = CLAIM.facts(results)
    assert named("width") <= facts.keys()
    assert facts["shazeer"] == "-0.053"
    quick = Results([row for row in results.rows if row.case in CLAIM.cases(True)])
    assert CLAIM.judge(quick).kind == "holds"
    assert CLAIM.panels(quick)
    assert CLAIM.facts(quick)
