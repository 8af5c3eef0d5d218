"""C2: the split into heads, right and wrong, on the trained weights of mini."""

import pytest
import torch

import lab_help
from headwise.core import masks
from headwise.lab.bench import Bench
from headwise.lab.claims import transpose
from headwise.lab.results import Results, Row
from headwise.lab.text import read_text


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(read_text([lab_help.text_file(tmp_path_factory.mktemp("text"))]), quick=True)


@pytest.fixture(scope="module")
def found(bench):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transpose, "STEPS", 3)
        return {way: transpose.measure(bench, {"split": way}, 0) for way in transpose.WAYS}


def test_the_right_split_is_the_loop_and_keeps_heads_apart(found):
    assert found["right"]["loop"] < 1e-6
    assert found["right"]["others"] == 0
    assert found["right"]["future"] == 0
    assert found["right"]["mixed"] == 1


@pytest.mark.parametrize("way", transpose.WRONG)
def test_each_mistake_is_caught(found, way):
    assert found[way]["others"] > 0
    assert found[way]["loop"] > 0.01
    assert found[way]["loss"] != found["right"]["loss"]


def test_half_a_transpose_lets_the_future_in(found):
    assert found["half"]["future"] > 0.01
    assert found["left out"]["future"] == 0


def test_the_right_split_is_the_layer_of_headwise(bench):
    import numpy as np

    layer, x = transpose._layer(bench, np.random.default_rng(0))
    z = transpose._heads(layer, x, "right")
    with torch.no_grad():
        torch.testing.assert_close(layer.w_o(z), layer(x, masks.causal()))


def test_the_model_of_the_right_split_is_the_small_model(bench):
    ids = bench.rows(2)
    with torch.no_grad():
        split = transpose._model(bench, 3, "right").eval()(ids)
        torch.testing.assert_close(split, bench.decoder(3).eval()(ids), atol=1e-5, rtol=1e-4)


def rows(noise=1e-9, others=0.0, caught=1.0, loop=1e-7, cost=0.3):
    made = []
    for seed in range(4):
        wide = noise * (-1) ** seed * (seed + 1)
        for way in transpose.WAYS:
            right = way == "right"
            one = {"others": others if right else caught + wide, "mixed": 1.0, "future": 0.0}
            one |= {"loop": loop + wide if right else 0.9}
            one |= {"loss": 4.0 + (0 if right else cost + 1e6 * wide)}
            made.append(Row({"split": way}, seed, one))
    return Results(made)


def test_the_verdict_can_be_each():
    assert transpose.judge(rows()).kind == "holds"
    assert transpose.judge(rows(others=1.0)).kind == "fails here"
    assert transpose.judge(rows(caught=0.0)).kind == "fails here"
    assert transpose.judge(rows(loop=1e-2)).kind == "fails here"
    assert transpose.judge(rows(cost=0.001)).kind == "not settled"
