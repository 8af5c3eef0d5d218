"""Time of heads and of length: what is timed, and verdicts on made-up rows. No test looks at a time."""

import pytest

from headwise.lab.claims import cost
from headwise.lab.results import Results, Row


def rows(at_12, at_64, power, wide=0.0):
    """Three seeds with these ratios to one head, and this exponent at every length."""
    found = []
    for seed in range(3):
        luck = wide * (seed - 1) + 0.001 * seed
        for case in cost.cases(quick=False):
            if "heads" in case:
                ratio = at_64 if case["heads"] == 64 else at_12
                numbers = {"ratio": ratio + luck}
            else:
                numbers = {"ratio": 2**power + luck, "exponent": power + luck}
            found.append(Row(case, seed, numbers))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind", "free"),
    [
        (rows(1.0, 1.05, 1.8), "holds", 64),
        (rows(1.0, 1.5, 1.8), "holds up to", 32),
        (rows(1.3, 1.5, 1.8), "fails here", 1),
        (rows(1.0, 1.05, 1.1), "fails here", 64),
        (rows(1.0, 1.05, 1.8, wide=0.4), "not settled", 64),
    ],
)
def test_verdicts(made, kind, free):
    assert cost.judge(made).kind == kind
    assert cost.free_to(made, "layer") == free
    said = cost.facts(made)
    assert all("nan" not in value for value in said.values())
    assert said["long_n_layer"] == "4096"
    assert said["long_n_patterns"] == "2048"


def test_short_lengths_do_not_fail_the_square():
    """Up to n = 2 d an exponent near 1 is what counting says too; above 1.5 it holds at any length."""

    def short(power):
        whole = rows(1.0, 1.05, power).rows
        return Results([row for row in whole if row.case.get("length", 0) <= 1024])

    flat, steep = cost.judge(short(1.1)), cost.judge(short(1.8))
    assert flat.kind == "not settled"
    assert [one.holds for one in flat.findings if one.name == "exponent"] == [None]
    assert steep.kind == "holds"
    assert cost.judge(rows(1.0, 1.05, 1.1)).kind == "fails here"


def test_each_case_times_what_it_names(bench, monkeypatch):
    asked = []

    def timed(bench, part, heads, length):
        asked.append((part, heads, length))
        return lambda: float(heads * length)

    monkeypatch.setattr(cost, "timed", timed)
    assert cost.measure(bench, {"part": "layer", "heads": 16}, 0) == {"ratio": 16.0}
    found = cost.measure(bench, {"part": "training", "length": 512}, 0)
    assert found == {"ratio": 2.0, "exponent": 1.0}
    assert asked == [
        ("layer", 16, 256),
        ("layer", 1, 256),
        ("training", 12, 512),
        ("training", 12, 256),
    ]


@pytest.mark.parametrize("part", cost.PARTS)
def test_every_part_runs(bench, part):
    assert cost.timed(bench, part, 4, 16)() > 0


def test_only_training_leaves_gradients(bench, monkeypatch):
    made = []
    layer = cost.MultiHeadAttention
    monkeypatch.setattr(
        cost, "MultiHeadAttention", lambda *size: made.append(layer(*size)) or made[-1]
    )
    for part in ("layer", "training"):
        cost.timed(bench, part, 4, 16)()
    assert [one.w_o.weight.grad is not None for one in made] == [False, True]
