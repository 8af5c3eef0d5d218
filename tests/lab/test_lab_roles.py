"""Roles along a training: the course of it, and verdicts on made-up rows."""

import pytest

from headwise.lab import bench as benches
from headwise.lab.bench import Bench
from headwise.lab.claims import roles
from headwise.lab.results import Results, Row


def rows(came=(25, 100, 200), heads=(3, 5, 9, 12), more=3.0, fresh=0.0):
    """Four seeds: the first roles come at these steps, the previous-token head is this one."""
    found = []
    for seed in range(4):
        for case in roles.cases(quick=False):
            step = case.get("step", 10**6)
            numbers = dict.fromkeys(roles.ROLES, fresh)
            for name, at in zip(roles.ROLES, came, strict=False):
                numbers[name] = 0.5 if step >= at else fresh
            end = 1 if step == 0 else more + 0.01 * seed
            numbers |= {"previous head": float(heads[seed]), "apart": 0.1 * end}
            found.append(Row(case, seed, numbers))
    return Results(found)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (rows(), "holds"),
        (rows(heads=(3, 3, 3, 3)), "holds up to"),
        (rows(came=()), "fails here"),
        (rows(more=0.5), "fails here"),
        (rows(fresh=0.3), "fails here"),
        (rows(came=(25,)), "not settled"),
    ],
)
def test_verdicts(made, kind):
    assert roles.judge(made).kind == kind
    assert all("nan" not in said for said in roles.facts(made).values())


def test_a_role_appears_where_it_first_passes_the_bound():
    assert roles.appears(rows(came=(25, 100)), "self") == dict.fromkeys(range(4), 100.0)
    assert roles.appears(rows(came=(25,)), "self") == {}


def test_same_head():
    assert roles.same_head(rows(heads=(1, 1, 2, 3)), "previous", 600) == pytest.approx(
        [1 / 3, 1 / 3, 0, 0]
    )


def test_one_training_serves_all_its_steps(bench, monkeypatch):
    monkeypatch.setattr(roles, "STEPS", (0, 5, 10))
    monkeypatch.setattr(benches, "STEPS", 10)
    roles.course.cache_clear()
    trained = []
    learn = Bench.learn
    monkeypatch.setattr(
        Bench, "learn", lambda *a, **k: trained.append(k["steps"]) or learn(*a, **k)
    )
    cases = [case for case in roles.cases(quick=True) if "step" in case]
    found = [roles.measure(bench, case, 0) for case in cases]
    assert trained == [2]
    assert [case["step"] for case in cases] == [0, 1, 2]
    assert found[0]["loss"] > found[2]["loss"]
    known = {one.name for one in roles.QUANTITIES}
    assert all(set(one) <= known for one in found)


@pytest.mark.models
def test_mini_has_a_previous_token_head(text):
    bench = Bench(text, quick=True)
    found = roles.measure(bench, {"model": "mini"}, 0)
    assert found["previous"] > 0.5 > found["self"]
    assert found["previous head"] == 4 * 2 + 3
