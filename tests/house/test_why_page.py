"""docs/en/why.md and its Chinese twin: their tables are those of the committed results, in both languages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "peers")]

import pages  # noqa: E402
from tries import PACKAGES, QUESTIONS, No, answered, same  # noqa: E402


def page(language: str) -> str:
    return (pages.DOCS / language / "why.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", range(len(pages.LANGUAGES)))
@pytest.mark.parametrize("name", pages.TABLES)
def test_the_tables_are_those_of_the_results(name, place) -> None:
    text = page(pages.LANGUAGES[place])
    assert pages.between(text, name, pages.TABLES[name](place)) == text


def test_every_tool_and_question_was_tried() -> None:
    rows = pages.result("peers")["rows"]
    assert {row["tool"] for row in rows} == {"headwise", *PACKAGES}
    assert {row["question"] for row in rows} == set(QUESTIONS)
    assert len({(row["question"], row["tool"]) for row in rows}) == len(rows)


def test_what_each_tool_does_that_headwise_does_not_is_told_too() -> None:
    ours = {
        r["question"]: r["yes"] for r in pages.result("peers")["rows"] if r["tool"] == "headwise"
    }
    assert not all(ours.values())


@pytest.mark.parametrize("language", pages.LANGUAGES)
def test_links_lead_somewhere(language) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", page(language)):
        assert (pages.DOCS / language / link).exists(), link


def test_an_answer_is_what_came() -> None:
    def fails() -> str:
        raise ValueError("no such\nthing")

    assert answered("gqa", "nnsight", lambda: same(1e-6, 1e-4)).yes
    assert answered("gqa", "nnsight", lambda: same(1e-3, 1e-4)).said == "largest difference 1.0e-03"
    assert not answered("gqa", "nnsight", lambda: same(1e-3, 1e-4)).yes
    assert answered("gqa", "nnsight", fails).said == "ValueError: no such thing"
    with pytest.raises(No):
        same(1.0, 0.1)
