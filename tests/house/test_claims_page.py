"""The course of claims: both pages are what the committed runs give, the pictures too, and its commands work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from headwise.lab.claims import CLAIMS, claim_of
from headwise.lab.running import Run, read_run
from headwise.lab.words import LANGUAGES
from headwise.show.lab.course import course_text
from headwise.show.lab.lesson import lesson_text
from headwise.show.lab.picture import draw_run
from headwise.show.pictures import save
from pages_help import ROOT, run, text_of

RUNS = ROOT / "evidence/lab"
SVG = "{http://www.w3.org/2000/svg}"
NUMBER = r"[-−\d.,e+×%]+"

committed = pytest.mark.skipif(
    not RUNS.exists(), reason="evidence/lab is not there: the runs are not measured yet"
)


@cache
def runs(folder: str) -> dict[str, Run]:
    return {
        name: read_run(claim_of(name), RUNS / folder)
        for name in CLAIMS
        if (RUNS / folder / f"{name}.jsonl").exists()
    }


@committed
@pytest.mark.parametrize("folder", ["first", "second"])
def test_every_claim_has_a_whole_full_run_of_its_seeds(folder):
    found = runs(folder)
    assert list(found) == list(CLAIMS)
    assert [name for name, run in found.items() if not run.whole or run.asked["quick"]] == []
    assert len({run.asked["seed"] for run in found.values()}) == 1
    assert {run.asked["seed"] for run in found.values()} != {
        run.asked["seed"] for run in runs("second" if folder == "first" else "first").values()
    }


@committed
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_what_the_course_makes_of_the_runs(language):
    made = course_text(runs("first"), language, second=runs("second"))
    assert text_of(f"docs/{language}/claims.md") == made


@committed
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_picture_shows_what_its_run_gave(name, language, tmp_path):
    save(draw_run(runs("first")[name], language), tmp_path / "drawn.svg")
    there = ROOT / "docs" / language / "pictures" / f"{name}.svg"
    assert words(there) == words(tmp_path / "drawn.svg")
    ours, theirs = list(marks(there)), list(marks(tmp_path / "drawn.svg"))
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, atol=0.01)


def words(path: Path) -> str:
    """All that is written in a picture but numbers, however it is broken into lines."""
    texts = ["".join(one.itertext()) for one in ElementTree.parse(path).iter(f"{SVG}text")]
    return "".join("".join(text.split()) for text in texts if not re.fullmatch(NUMBER, text))


def marks(path: Path) -> Iterator[np.ndarray]:
    """The heights of each line, band and bar, in parts of its panel: no font changes them."""
    for one in ElementTree.parse(path).iter(f"{SVG}g"):
        if not re.fullmatch(r"axes_\d+", one.get("id", "")):
            continue
        (frame,) = heights(one.find(f"{SVG}g[@id]/{SVG}path"))
        low, size = frame.min(), np.ptp(frame)
        for part in one:
            if re.match(r"(line2d|patch|FillBetween|LineCollection)", part.get("id", "")):
                for path_ in part.iter(f"{SVG}path"):
                    for found in heights(path_):
                        yield (found - low) / size


def heights(path: ElementTree.Element | None) -> list[np.ndarray]:
    assert path is not None
    numbers = re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
    return [np.array([float(y) for _, y in numbers])] if numbers else []


def commands() -> list[str]:
    """What the course says to type for the claims that need no experiment."""
    _, text = lesson_text("index", "en")
    lines = [row for row in text.splitlines() if re.match(r"\| C\d+ ", row)]
    typed = [one for row in lines for one in re.findall(r"`(headwise [^`]+)`", row)]
    return [one for one in typed if len(one.split()) > 2]


def test_experiments_and_commands_are_all_claims_of_the_articles():
    _, text = lesson_text("index", "en")
    told = re.findall(r"^\| (C\d+) ", text, flags=re.MULTILINE)
    assert sorted([*told, *CLAIMS.values()], key=lambda row: int(row[1:])) == [
        f"C{n}" for n in range(1, 24)
    ]


@pytest.mark.models
@pytest.mark.parametrize("command", commands())
def test_a_command_for_a_claim_works(command, capsys):
    assert run(command, capsys)
    assert len(capsys.readouterr().out.splitlines()) > 5
