"""Pre-LN and Post-LN: gradients at the start against Xiong et al., and verdicts on made-up rows."""

import pytest

from headwise.lab.claims import norms
from headwise.lab.results import Results, Row


def rows(pre, post, need_post=0.5, behind=0.2, wide=0.0):
    """Four seeds; pre, post: the last layer's gradient in the deepest model, where that of the shallowest is 1."""
    found = []
    for seed in range(4):
        for case in norms.cases(quick=True):
            place = case["norm"]
            luck = 1 + wide * (seed - 1.5)
            if case["of"] == "start":
                last = {"pre": pre, "post": post}[place] if case["layers"] == 24 else 1.0
                numbers = {f"at {part}": last * luck + 0.01 * seed for part in norms.WHERE}
            else:
                need = {"pre": -0.1, "post": need_post}[place] if case["warmup"] == 0 else 0.0
                need += behind * (place == "post")
                numbers = {"loss": 4.0 + need + 0.01 * seed * (case["warmup"] == 0)}
            found.append(Row(case, seed, numbers))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(0.4, 1.0), "holds"),
        (rows(0.4, 1.0, need_post=-0.3), "holds up to"),
        (rows(0.4, 1.0, behind=-0.2), "holds up to"),
        (rows(1.0, 1.2), "fails here"),
        (rows(0.4, 0.4), "fails here"),
        (rows(0.4, 0.39), "fails here"),
        (rows(0.64, 1.0, wide=0.4), "not settled"),
    ],
)
def test_verdicts(made, kind):
    if kind == "not settled":  # the shallow model's luck is another than the deep one's
        turned = [
            r if r.case.get("layers") != 4 else r.__class__(r.case, 3 - r.seed, r.numbers)
            for r in made.rows
        ]
        made = Results(turned)
    assert norms.judge(made).kind == kind
    assert all("nan" not in said for said in norms.facts(made).values())


def test_lag_is_that_of_the_warmed_up_trainings():
    found = {one.name: one for one in norms.judge(rows(0.4, 1.0, behind=0.3)).findings}
    assert found["lag"].value.mean == pytest.approx(0.3)
    assert found["lag"].holds is True


def test_the_last_gradient_falls_with_depth_in_pre_ln_alone(bench):
    def last(layers, place):
        case = {"of": "start", "layers": layers, "norm": place}
        return norms.measure(bench, case, 0)["at 100"]

    assert last(24, "pre") / last(4, "pre") < norms.NEARER < last(24, "post") / last(4, "post")


def test_a_training_has_a_finite_loss(bench, monkeypatch):
    monkeypatch.setattr(norms, "STEPS", 6)
    case = {"of": "training", "warmup": 0.2, "norm": "post"}
    assert 0 < norms.measure(bench, case, 0)["loss"] < 8
