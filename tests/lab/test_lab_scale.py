"""The factor 1 / sqrt(head_dim): what is measured against what can be reckoned, and verdicts."""

import math

import pytest

from headwise.lab.bench import Bench
from headwise.lab.claims import scale
from headwise.lab.results import Results, Row


def rows(off, loss, wide=0.0, even=0.9, slope=0.1):
    """Three seeds in which rows without the factor have this largest weight and models lose this much."""
    found = []
    for seed in range(3):
        luck = wide * (seed - 1)
        for case in scale.cases(quick=True):
            on = case["factor"] == "on"
            if case["of"] == "fresh weights":
                numbers = {
                    "largest": 0.1 if on else off + luck,
                    "gradient": 0.2 if on else 0.2 * slope + 0.001 * seed,
                    "gradient_q": 0.2,
                    "evenness": even if on and case["head_dim"] > 8 else 0.9,
                }
            else:
                numbers = {"loss": 3.0 if on else 3.0 + loss + 0.01 * seed}
            found.append(Row(case, seed, numbers))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(0.8, 0.5), "holds"),
        (rows(0.8, -0.5), "holds up to"),
        (rows(0.2, 0.5), "fails here"),
        (rows(0.8, 0.5, even=0.5), "fails here"),
        (rows(0.8, 0.5, slope=0.9), "fails here"),
        (rows(0.6, 0.5, wide=0.3), "not settled"),
    ],
)
def test_verdicts(made, kind):
    assert scale.judge(made).kind == kind
    assert all("nan" not in said for said in scale.facts(made).values())


def test_fresh_rows_saturate_only_without_the_factor(bench):
    small, large = (scale.fresh(bench, dim, True, 0) for dim in (8, 128))
    assert small["evenness"] == pytest.approx(large["evenness"], abs=0.05)
    without = scale.fresh(bench, 128, False, 0)
    assert without["largest"] > 0.5 > large["largest"]
    assert without["gradient"] < large["gradient"] / 2


@pytest.mark.models
def test_a_factor_left_in_a_trained_model_changes_nothing(text):
    bench = Bench(text, quick=True)
    on, off = (scale.trained(bench, "mini", way, 0) for way in (True, False))
    assert off["loss"] > on["loss"]
    from headwise.cut.losses import blocks, loss

    paragraphs = scale.random.Random(0).sample(text.held_out, 40)
    model = bench.model("mini")
    assert on["loss"] == pytest.approx(
        loss(model, blocks(model, paragraphs, 128)[:4]).mean, abs=1e-4
    )


def test_unit_start_gives_queries_of_variance_one(bench):
    module = bench.decoder(0, **scale.TRAINING)
    scale.to_unit(module)
    weight = module.blocks[0].attention.w_qkv.weight.detach()
    rows_of_qk = 2 * scale.TRAINING["num_heads"] * scale.TRAINING["head_dim"]
    assert float(weight[:rows_of_qk].std()) == pytest.approx(1 / math.sqrt(64), rel=0.05)
    assert float(weight[rows_of_qk:].std()) == pytest.approx(0.02, rel=0.05)
