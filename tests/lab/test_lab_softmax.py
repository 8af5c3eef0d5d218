"""C15: rows of weights with the mask before and after the softmax, in a trained model on text."""

import pytest
import torch

import lab_help
from headwise.core import masks
from headwise.core.attention import attend
from headwise.core.scores import Scores, mix
from headwise.lab.bench import Bench
from headwise.lab.claims import softmax
from headwise.lab.results import Results, Row
from headwise.lab.text import read_text


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(read_text([lab_help.text_file(tmp_path_factory.mktemp("text"))]), quick=True)


@pytest.fixture(scope="module")
def found(bench):
    return {way: softmax.measure(bench, {"model": "mini", "mask": way}, 0) for way in softmax.WAYS}


def test_the_mask_before_is_what_the_model_does(found):
    assert found["before"]["moved"] < 1e-5
    assert found["before"]["loss"] == pytest.approx(found["attend"]["loss"], abs=1e-4)
    for at in softmax.AT:
        assert found["before"][f"sum{at}"] == pytest.approx(1, abs=1e-5)
    assert found["before"]["leak"] == 0


def test_the_mask_after_leaves_a_share_and_lets_the_future_in(found):
    sums = [found["after"][f"sum{at}"] for at in softmax.AT]
    assert sums[0] < 0.5
    assert sums[-1] == pytest.approx(1, abs=1e-5)
    assert found["after"]["moved"] > 0.1
    assert found["after"]["leak"] > 1e-4


def test_dividing_by_what_is_left_mends_it(found):
    assert found["divided"]["moved"] < 1e-5
    assert found["divided"]["leak"] < 1e-5


def test_rows_that_see_nothing(found):
    assert [found[way]["blind"] for way in softmax.WAYS] == [0, 1, 0, 1]


def test_weights_of_grouped_heads_are_those_of_attend():
    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)
    scores = Scores(q, k, masks.causal(), 0.5)
    z = attend(q, k, v, masks.causal(), scale=0.5)
    torch.testing.assert_close(mix(softmax.weights(scores, "before"), v), z)


def rows(noise=0.0, loss=0.2, after=0.3, leak=0.01, before=1.0):
    made = []
    for seed in range(4):
        wide = noise * (-1) ** seed * (seed + 1)
        for way in softmax.WAYS:
            one = {f"sum{at}": after + wide if way == "after" else before for at in softmax.AT}
            one |= {"loss": 3.0 + (loss + wide if way == "after" else 0.0), "moved": 0.0}
            one |= {"leak": leak + wide if way == "after" else 0.0, "blind": 0.0}
            made.append(Row({"model": "mini", "mask": way}, seed, one))
    return Results(made)


def test_the_verdict_can_be_each():
    assert softmax.judge(rows(1e-4)).kind == "holds"
    assert softmax.judge(rows(1e-4, after=1.0)).kind == "fails here"
    assert softmax.judge(rows(1e-4, before=0.9)).kind == "fails here"
    assert softmax.judge(rows(1e-4, leak=-0.1)).kind == "fails here"
    assert softmax.judge(rows(1e-4, loss=-0.2)).kind == "fails here"
    assert softmax.judge(rows(0.4)).kind == "not settled"


def test_facts_and_panels_are_of_the_rows():
    results = rows(1e-4)
    assert softmax.facts(results)["fourth"].startswith("0.300 [")
    first, second = softmax.panels(results)
    assert first.lines[0].y[0] == pytest.approx(0.3, abs=1e-3)
    assert second.lines[0].y[softmax.WAYS.index("after")] == pytest.approx(0.2, abs=1e-3)
