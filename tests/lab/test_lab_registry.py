"""All claims together: the registry, the files and the lessons are one set, and every lesson can be filled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headwise.lab
from headwise.lab.claim import Claim, Finding, Verdict
from headwise.lab.claims import CLAIMS, claim_of
from headwise.lab.estimates import Estimate
from headwise.lab.judging import of_quick
from headwise.lab.results import Results, Row
from headwise.lab.running import Run
from headwise.lab.words import LANGUAGES, Words
from headwise.show.lab.lesson import LESSONS, lesson
from headwise.show.lab.picture import draw_run

ROWS_OF_ARTICLES = [
    "C1",
    "C2",
    "C5",
    "C6",
    "C7",
    "C9",
    "C11",
    "C14",
    "C15",
    "C18",
    "C19",
    "C21",
    "C22",
]
HAN = re.compile(r"[\u4e00-\u9fff]")


def run_of(claim: Claim, quick: bool) -> Run:
    """A run whose every number is about 1, and its own: no result, but one of the right form."""
    seeds = range(claim.seeds[0] if quick else claim.seeds[1])
    rows = [
        Row(case, seed, {q.name: 1 + at / 100 + seed / 1000 for q in claim.quantities})
        for seed in seeds
        for at, case in enumerate(claim.cases(quick))
    ]
    asked = {"quick": quick, "seed": 0, "text": "made up", "threads": 1}
    return Run(claim, Results(rows), asked, True)


def names_in(folder: Path, ending: str) -> set[str]:
    return {path.stem for path in folder.glob(f"*{ending}")} - {"__init__", "index"}


def test_claims_files_and_lessons_are_one_set():
    claims = Path(headwise.lab.__file__).parent / "claims"
    assert names_in(claims, ".py") == set(CLAIMS)
    for language in LANGUAGES:
        assert names_in(LESSONS / language, ".md") == set(CLAIMS), language
    assert sorted(CLAIMS.values()) == sorted(ROWS_OF_ARTICLES)


@pytest.mark.parametrize(("name", "row"), CLAIMS.items())
def test_a_claim_is_who_it_says(name, row):
    claim = claim_of(name)
    assert (claim.name, claim.row) == (name, row)
    assert claim_of(row) is claim
    assert claim.sources
    assert claim.formula
    assert claim.seeds[1] >= 3
    for said in (claim.title, claim.says, claim.asks):
        assert said.en
        assert not HAN.search(re.sub("“.*?”", "", said.en))
        assert HAN.search(said.zh)


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_is_filled_by_a_run(name, language):
    for quick in (True, False):
        run = run_of(claim_of(name), quick)
        told = lesson(run, language, f"{name}.svg")
        prose = re.sub(r"```.*?```", "", told, flags=re.S)
        assert "{{" not in prose
        assert "nan" not in re.findall(r"[a-z]+", prose)
        assert run.verdict().findings


@pytest.mark.parametrize("name", CLAIMS)
def test_every_picture_can_be_drawn(name):
    figure = draw_run(run_of(claim_of(name), True), "zh-CN")
    assert all(axes.has_data() for axes in figure.axes)


def test_a_quick_run_fails_no_claim():
    figure = Finding("x", Words("a figure", "数"), Estimate(1, 0.9, 1.1, 5), False)
    failed = Verdict.of([figure], Words("It holds.", "成立。"))
    assert failed.kind == "fails here"
    soft = of_quick(failed)
    assert soft.kind == "not settled"
    assert failed.says.en in soft.says.en
    assert failed.says.zh in soft.says.zh
    assert soft.findings == failed.findings
    held = Verdict("holds", Words("It holds.", "成立。"))
    assert of_quick(held) is held


def test_a_run_says_so_where_it_was_quick():
    claim = claim_of("order")
    for quick, kind in ((True, "not settled"), (False, "fails here")):
        run = run_of(claim, quick)
        assert claim.judge(run.results).kind == "fails here"
        assert run.verdict().kind == kind
