"""Roles from tables of known numbers: what is claimed, against what, and how it is told."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from evidence_help import evidence, one_head
from scipy import stats

import headwise as hw
from headwise.names import ConfigError, HeadError, ModelError, OutputError
from headwise.see.roles.claims import RULE
from headwise.see.roles.files import as_markdown
from headwise.see.roles.reasons import why_none


def test_a_strong_head_is_claimed_with_its_numbers() -> None:
    mass = one_head(0.1)
    mass[:, 1, 2] = 0.7, 0.6
    table = evidence(
        {"previous": {"mass": mass, "hits": 0.5, "fixed": False, "says": "the one before"}}
    )
    found = hw.roles(table)
    (role,) = found.claimed
    assert (str(role.head), role.probe, role.score, role.hits) == ("1.2", "previous", 0.6, 0.5)
    assert (role.baseline, role.baseline_is, role.cases, role.texts) == (0.2, "uniform", 400, 40)
    t = stats.t.ppf(0.975, 39)
    np.testing.assert_allclose([role.low, role.high], [0.6 - t * 0.01, 0.6 + t * 0.01], rtol=1e-9)
    assert role.above == pytest.approx(0.5)
    assert role.says == "the one before"
    assert found.tried == 1


def test_the_interval_is_widened_for_all_that_were_tried() -> None:
    """Six heads are candidates: the error allowed for is Student's at 1 - 0.05 / 12, of draws at the baseline."""
    table = evidence({"p": {"mass": 0.5, "mass_error": 0.03, "uniform": 0.2}})
    found = hw.roles(table)
    assert found.tried == 6
    wide = stats.t.ppf(1 - 0.05 / 12, 39)
    assert found.of("0.0")[0].sure == pytest.approx(0.5 - wide * 0.03)
    exact = evidence({"p": {"mass": 0.5, "mass_error": 0.0, "uniform": 0.2, "count": 100}})
    chance = np.sqrt(0.2 * 0.8 / 100)
    assert hw.roles(exact).of("0.0")[0].sure == pytest.approx(0.5 - wide * chance)


def test_barely_over_the_baseline_is_no_role() -> None:
    """The end of its plain interval is above the baseline, of the one widened for all tried it is not."""
    mass = np.full((2, 2, 3), 0.5)
    mass[:, 0, 0] = 0.225
    found = hw.roles(evidence({"p": {"mass": mass, "mass_error": 0.01, "count": 4000}}))
    (barely,) = found.of("0.0")
    assert barely.low > barely.baseline > barely.sure
    assert not barely.claimed
    assert len(found.claimed) == 5


def test_what_beats_it_in_one_half_alone_is_no_role() -> None:
    for half in (0, 1):
        mass = np.full((2, 2, 3), 0.1)
        mass[half, 0, 0] = 0.9
        assert hw.roles(evidence({"p": {"mass": mass}})).claimed == []


def test_heads_are_ranked_by_the_half_that_chooses() -> None:
    mass = np.full((2, 2, 3), 0.1)
    mass[:, 0, 1] = 0.8, 0.5
    mass[:, 1, 1] = 0.6, 0.9
    best = hw.roles(evidence({"p": {"mass": mass}})).best("p", 2)
    assert [(str(role.head), role.score) for role in best] == [("0.1", 0.5), ("1.1", 0.9)]


def test_the_fixed_offset_is_a_baseline_unless_the_rule_is_one() -> None:
    hits = one_head(0.6)
    offset = {"hits": hits, "by": "hits", "offset": 2, "offset_share": 0.58}
    assert hw.roles(evidence({"det_to_head": offset})).claimed == []
    role = hw.roles(evidence({"det_to_head": offset})).best("det_to_head")[0]
    assert (role.baseline, role.baseline_is, role.by) == (0.58, "offset +2", "hits")
    free = hw.roles(evidence({"next": {**offset, "fixed": False}}))
    assert [role.baseline_is for role in free.claimed] == ["uniform"]
    weak = hw.roles(evidence({"p": {**offset, "offset_share": 0.15}}))
    assert weak.claimed[0].baseline == 0.2


def test_a_sure_but_slight_leaning_is_no_role() -> None:
    slight = {"mass": [[0.2 + 0.8 * 0.09, 0.2 + 0.8 * 0.11]], "mass_error": 1e-4}
    table = evidence({"p": slight}, layers=1, heads=2)
    assert [str(role.head) for role in hw.roles(table).claimed] == ["0.1"]
    assert len(hw.roles(table, least=0).claimed) == 2
    with pytest.raises(ConfigError, match="least must be a share"):
        hw.roles(table, least=1)


@pytest.mark.parametrize("texts", [5, 20, 200])
@pytest.mark.parametrize("per_text", [1, 5])
def test_chance_gives_no_role(texts: int, per_text: int) -> None:
    """270 heads on 60 probes whose hits are draws at the baseline: a false claim in less than 5 % of the tables."""
    wrong, tables = 0, 40
    for seed in range(tables):
        random = np.random.default_rng(seed)
        uniform = random.uniform(0.02, 0.5, (60, 1, 1, 1))
        cases = texts * per_text
        rates = random.binomial(per_text, uniform, (60, 2, 270, texts)) / per_text
        hits, error = rates.mean(-1), rates.std(-1, ddof=1) / np.sqrt(texts)
        probes = {
            f"p{i}": {
                "by": "hits",
                "hits": hits[i].reshape(2, 30, 9),
                "hits_error": error[i].reshape(2, 30, 9),
                "uniform": float(uniform[i].item()),
                "texts": texts,
                "count": cases,
            }
            for i in range(60)
        }
        wrong += bool(hw.roles(evidence(probes, layers=30, heads=9)).claimed)
    assert wrong <= 0.05 * tables


def test_one_head_of_several_roles_shows_the_one_most_above_its_baseline() -> None:
    table = evidence(
        {
            "first": {"mass": one_head(0.99), "uniform": 0.1},
            "nsubj_to_head": {"mass": one_head(0.6), "hits": one_head(0.7), "by": "hits"},
            "previous": {"mass": one_head(0.6), "uniform": 0.5},
        }
    )
    found = hw.roles(table)
    assert [role.probe for role in found.of("0.0")] == ["first", "nsubj_to_head", "previous"]
    assert found.main("0.0").probe == "nsubj_to_head"  # the sink has a role beside it
    assert found.main("0.1") is None
    alone = hw.roles(evidence({"first": {"mass": one_head(0.99), "uniform": 0.1}}))
    assert alone.main("0.0").probe == "first"


def test_several_tables_are_told_together() -> None:
    one = evidence({"previous": {"mass": one_head(0.9)}})
    other = evidence({"induction_random": {"mass": one_head(0.8, layer=1)}})
    found = hw.roles([one, other])
    assert found.probes == ["previous", "induction_random"]
    assert [str(role.head) for role in found.claimed] == ["0.0", "1.0"]
    assert found.tried == 2


def test_tables_that_do_not_go_together_are_refused() -> None:
    one = evidence({"previous": {}})
    with pytest.raises(ModelError, match=r"different models, tiny and huge; give those of one"):
        hw.roles([one, evidence({"next": {}}, model="huge")])
    with pytest.raises(ModelError, match="different models"):
        hw.roles([one, evidence({"next": {}}, layers=3)])
    with pytest.raises(ConfigError, match=r"the probe 'previous' is in two tables"):
        hw.roles([one, one])
    with pytest.raises(ConfigError, match="there is no table"):
        hw.roles([])
    with pytest.raises(ConfigError, match="came one without probes"):
        hw.roles(one.drop_vars("probe_mass"))
    with pytest.raises(ConfigError, match="level must be a share"):
        hw.roles(one, level=1.5)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"roles takes tables from profile.*; came int"):
        hw.roles(5)
    with pytest.raises(ConfigError, match=r"; came str"):
        hw.roles(["a.nc"])


def test_too_few_texts_are_said_in_one_line() -> None:
    few = {"mass": one_head(0.9), "texts": 4, "mass_error": np.nan}
    found = hw.roles(evidence({"p": few, "previous": {}}))
    assert found.claimed == []
    assert found.notes == (
        "p: fewer than 5 texts in a half, so no role is claimed; give more texts",
    )
    (role, *_) = found.best("p")
    assert role.score == 0.9
    assert np.isnan(role.low)


def test_what_lies_ahead_and_what_never_occurs_is_said() -> None:
    nothing = {"mass": np.nan, "hits": np.nan, "uniform": np.nan, "count": 0, "texts": 0}
    found = hw.roles(
        evidence({"next": {**nothing, "unseen": 30}, "clf_to_head": nothing, "previous": {}})
    )
    assert found.notes == (
        "next: what is named lies ahead, where this model may not look",
        "clf_to_head: no case in these texts",
    )
    assert found.best("next") == []
    assert [role.probe for role in found.of("0.0")] == ["previous"]


def test_streams_are_kept_apart() -> None:
    mass = one_head(0.9)
    mass[:, 1, 1] = 0.95
    table = evidence({"first": {"mass": mass}}, names=["encoder.0", "cross.0"])
    found = hw.roles(table)
    assert found.streams == ["encoder", "cross"]
    assert [str(r.head) for r in found.best("first", 1, "encoder")] == ["encoder.0.0"]
    assert [str(r.head) for r in found.best("first", 1, "cross")] == ["cross.0.1"]
    assert found.main("cross.0.1").probe == "first"


def test_wrong_names_are_told() -> None:
    found = hw.roles(evidence({"previous": {}}))
    with pytest.raises(HeadError, match=r"no head 7\.0: the heads of tiny are 0\.0 to 1\.2"):
        found.of("7.0")
    with pytest.raises(HeadError, match=r"no head 1\.9: layer 1 has the heads 1\.0 to 1\.2"):
        found.main("1.9")
    with pytest.raises(ConfigError, match="there is no probe 'nope'; there are previous"):
        found.best("nope")
    with pytest.raises(ConfigError, match="tiny has no stream 'zzz'; there are ''"):
        found.best("previous", 1, "zzz")
    streams = hw.roles(evidence({"first": {}}, names=["encoder.0", "cross.0"]))
    known = r"encoder\.0\.0 to encoder\.0\.2, cross\.0\.0 to cross\.0\.2"
    with pytest.raises(HeadError, match=rf"no head 0\.1: the heads of tiny are {known}"):
        streams.of("0.1")


def test_why_a_probe_has_no_role() -> None:
    """Too few texts; none a candidate; none sure; sure but slight: each is said as it is."""
    slight = {"mass": one_head(0.25), "mass_error": 1e-4, "count": 10**6}
    found = hw.roles(
        evidence(
            {
                "few": {"mass": 0.9, "texts": 4, "mass_error": np.nan},
                "below": {"mass": 0.1},
                "unsure": {"mass": one_head(0.9), "mass_error": 0.3},
                "slight": slight,
                "clear": {"mass": one_head(0.9)},
                "none": {"mass": np.nan, "hits": np.nan, "count": 0, "texts": 0},
            }
        )
    )
    assert found.tried == 3
    assert {name: why_none(found, name, "") for name in found.probes} == {
        "few": "too few texts to say",
        "below": "no head beats its baseline in the choosing half",
        "unsure": "none beyond chance with all 3 tried",
        "slight": "none that is surely above its baseline goes 0.1 of the way from there to 1",
        "clear": "",
        "none": "",
    }


def test_why_none_is_told_of_each_stream() -> None:
    mass = np.full((2, 2, 3), 0.1)
    mass[:, 1, 0] = 0.9
    found = hw.roles(evidence({"first": {"mass": mass}}, names=["encoder.0", "cross.0"]))
    assert why_none(found, "first", "encoder").startswith("no head beats its baseline")
    assert why_none(found, "first", "cross") == ""


def test_what_is_sure_is_never_below_zero() -> None:
    (role, *_) = hw.roles(evidence({"p": {"mass": 0.3, "mass_error": 0.3}})).best("p")
    assert (role.low, role.sure) == (0.0, 0.0)


def test_files(tmp_path) -> None:
    table = evidence(
        {"previous": {"mass": one_head(0.9), "says": "a|b"}, "nsubj_to_head": {"by": "hits"}}
    )
    found = hw.roles(table)
    for kind in ("csv", "json", "md", "nc"):
        found.save(tmp_path / f"r.{kind}")
    back = hw.load_roles(tmp_path / "r.nc")
    assert back.evidence.equals(found.evidence)
    assert back.claimed == found.claimed
    assert back.evidence.attrs == found.evidence.attrs
    rows = pd.read_csv(tmp_path / "r.csv")
    assert len(rows) == 12
    assert rows[rows.claimed][["head", "probe", "score"]].values.tolist() == [
        [0.0, "previous", 0.9]
    ]
    data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert (data["about"]["tried"], data["about"]["rule"]) == (1, RULE)
    assert data["heads"][0] == {
        "id": "0.0",
        "shown": "previous",
        "roles": [data["probes"][0]["best"][0]],
    }
    assert data["heads"][1] == {"id": "0.1", "shown": None, "roles": []}
    assert [p["probe"] for p in data["probes"]] == ["previous", "nsubj_to_head"]
    lines = (tmp_path / "r.md").read_text(encoding="utf-8").splitlines()
    (role,) = found.claimed
    interval, sure = f"{role.low:.3f} to {role.high:.3f}", f"{role.sure:.3f}"
    assert role.low > role.sure
    assert (
        f"| previous | 0.0 | 0.900 | attention | 0.200 (uniform) | {interval} | {sure} | 400 | 40 | yes |"
        in lines
    )
    assert any(
        line.endswith("| no: no head beats its baseline in the choosing half |") for line in lines
    )
    assert {line.count(" | ") for line in lines if line.startswith("|")} == {9}
    assert "- previous: a\\|b" in lines
    told = as_markdown(found)
    assert "Pairs of probe and head tried: 1, level 0.05" in told
    assert "with a case: up to 40 in the choosing half, up to 40 in the reporting half" in told
    with pytest.raises(OutputError, match=r"must end in one of \.csv, \.json, \.md, \.nc"):
        found.save(tmp_path / "r.xls")
    with pytest.raises(ModelError, match=r"r\.csv cannot be read as roles in netCDF"):
        hw.load_roles(tmp_path / "r.csv")
    with pytest.raises(
        ModelError, match=r"none\.nc cannot be .*netCDF: No such file or directory$"
    ):
        hw.load_roles(tmp_path / "none.nc")


def test_a_rival_of_the_probe_is_a_baseline() -> None:
    paced = {"hits": 0.8, "hits_error": 0.001, "by": "hits", "fixed": False}
    known = {"rival": "even pace", "rival_share": 0.55}
    free = hw.roles(evidence({"alignment": paced})).claimed
    assert {role.baseline_is for role in free} == {"uniform"}
    held = hw.roles(evidence({"alignment": {**paced, **known}}), least=0.0)
    assert {(role.baseline, role.baseline_is) for role in held.claimed} == {(0.55, "even pace")}
    assert hw.roles(evidence({"alignment": {**paced, **known, "hits": 0.5}})).claimed == []


@pytest.mark.parametrize("texts", [5, 10, 36])
def test_where_all_cases_hit_the_interval_is_that_of_as_many_draws(texts: int) -> None:
    every = {"hits": 1.0, "hits_error": 0.0, "by": "hits", "texts": texts, "count": texts}
    found = hw.roles(evidence({"p": {**every, "uniform": 0.05}}, layers=1, heads=1)).of("0.0")[0]
    exact = stats.beta.ppf(0.025, texts, 1)  # Clopper & Pearson 1934
    assert (found.low, found.high) == (pytest.approx(exact), 1.0)
    assert found.sure <= found.low + 1e-9
    none = {**every, "hits": 0.0}
    last = hw.roles(evidence({"p": none}, layers=1, heads=1)).of("0.0")[0]
    assert (last.low, last.high) == (0.0, pytest.approx(stats.beta.ppf(0.975, 1, texts)))
