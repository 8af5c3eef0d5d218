"""Blocks with parts left out: what is left does what it should, and verdicts."""

from __future__ import annotations

import pytest
import torch

from headwise.lab.claims import mixing
from headwise.lab.results import Results, Row

WHOLE, NO_FFN, DEEP, NO_ATTENTION, NO_SKIP, ALONE = mixing.CLAIM.cases(True)
LAST = f"after_{mixing.DEPTH}"


def rows(alone=0.01, no_ffn=0.2, deep=0.1, wide=0.0):
    """Four seeds: how far attention alone leaves the positions apart, and losses above the whole model's."""
    found = []
    above = [0.0, no_ffn, deep, 1.0, 0.5, 2.0]
    for seed in range(4):
        luck = wide * (seed - 1.5)
        for case, more in zip(mixing.CLAIM.cases(False), above, strict=True):
            apart = alone * (1 + 0.1 * seed) if case == ALONE else 0.8
            loss = 3.0 + more + (luck if more else 0.0)
            found.append(Row(case, seed, {"loss": loss, "trained": 0.5, LAST: apart}))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(), "holds"),
        (rows(deep=-0.1), "holds up to"),
        (rows(alone=0.7), "fails here"),
        (rows(no_ffn=-0.2), "fails here"),
        (rows(wide=0.5), "not settled"),
    ],
)
def test_verdicts(made, kind):
    assert mixing.CLAIM.judge(made).kind == kind


def test_nothing_left_out_is_the_whole_model(bench):
    ids = bench.rows(2)
    with torch.no_grad():
        assert torch.equal(mixing.made(bench, WHOLE, 3, 2)(ids), bench.decoder(3)(ids))


def test_without_attention_no_position_sees_another(bench):
    ids = bench.rows(1)
    changed = ids.clone()
    changed[0, 5] = (changed[0, 5] + 1) % bench.config().vocab_size
    for case, moved in ((NO_ATTENTION, 1), (WHOLE, ids.shape[1] - 5)):
        decoder = mixing.made(bench, case, 0, 2)
        with torch.no_grad():
            differs = (decoder(ids) != decoder(changed)).any(-1)[0]
        assert int(differs.sum()) == moved
        assert not differs[:5].any()


def test_as_many_parameters_as_the_whole_model(bench):
    def count(case):
        decoder = mixing.made(bench, case, 0, int(case["layers"]))
        return sum(p.numel() for block in decoder.blocks for p in block.parameters() if p.dim() > 1)

    assert count(DEEP) == 3 * count(NO_FFN) == count(WHOLE)


def test_attention_alone_brings_the_positions_together(bench):
    ids = bench.rows(4)
    whole, alone = (mixing.apart(mixing.made(bench, x, 0, 8), ids) for x in (WHOLE, ALONE))
    assert whole[0] == pytest.approx(alone[0])
    assert alone[-1] < 0.2 * alone[0]
    assert whole[-1] > 0.8 * whole[0]


def test_equal_rows_are_not_apart():
    x = torch.randn(2, 1, 8).double().expand(2, 5, 8)
    assert mixing._distance(x) == pytest.approx(0.0, abs=1e-12)
    assert mixing._distance(torch.eye(4).double()[None]) == pytest.approx((3 / 4) ** 0.5)
