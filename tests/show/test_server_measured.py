"""What a server measures of a view is what told_flow and told_fires say; and it ends when nobody listens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server_help import TEXT, Asked

import headwise as hw
from headwise.hub.load import Model
from headwise.show.page.fires import told_fires
from headwise.show.page.flow import told_flow
from headwise.show.server import answers
from headwise.show.server.answers import Answers
from headwise.show.server.settings import Settings, offered
from headwise.show.server.shelf import Models, Shelf
from headwise.show.server.work import GoneError, Job

TELLS = {"flow": told_flow, "fires": told_fires}


@pytest.fixture(scope="module")
def model(models: Path) -> Model:
    return replace(hw.load(models / "small"), name="small")  # as the server calls it


def plain(told: dict[str, Any]) -> Any:
    """As JSON has it, without how long it took."""
    return json.loads(json.dumps(told, allow_nan=False))


def same(one: Any, other: Any) -> bool:
    """Alike but for rounding."""
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[k], other[k]) for k in one if k != "took")
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-3, abs=1e-6)
    return bool(one == other)


@pytest.mark.parametrize("what", TELLS)
def test_a_view_is_measured_as_from_python(asked: Asked, model: Model, what: str) -> None:
    lines = asked.lines("look", model="small", text=TEXT)
    found = asked.result(what, scene=lines[-1]["result"]["scene"])
    assert found
    assert same(plain(found), plain(TELLS[what](model, hw.look(model, TEXT))))


@pytest.mark.parametrize("what", TELLS)
def test_with_heads_down_it_is_measured_with_them_down(
    asked: Asked, model: Model, what: str
) -> None:
    without = ["0.1", "0.2", "0.3"]
    scene = asked.result("look", model="small", text=TEXT, without=without)["scene"]
    found = plain(asked.result(what, scene=scene))
    with hw.ablate(model, without):
        down = plain(TELLS[what](model, hw.look(model, TEXT)))
    assert same(found, down)
    assert not same(found, plain(TELLS[what](model, hw.look(model, TEXT))))


@pytest.mark.parametrize("what", TELLS)
def test_it_says_how_far_it_is_and_what_is_wrong(asked: Asked, what: str) -> None:
    scene = asked.result("look", model="small", text=TEXT)["scene"]
    lines = asked.lines(what, scene=scene)
    assert {"doing": "measuring"} in lines[:2]
    told = [line for line in lines if "done" in line]
    assert told
    assert told[-1]["done"] <= told[-1]["total"]
    assert "let go" in asked.error(what, scene="unknown")


def test_a_look_that_nobody_awaits_ends_while_heads_are_compared(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, folder = offered([], models)
    settings = Settings(names)
    here = Answers(Models(settings, folder), Shelf(settings.kept_bytes))
    told: list[dict[str, Any]] = []

    def tell(line: dict[str, Any]) -> None:
        told.append(line)
        if any("every head" in line.get("doing", "") for line in told) and "done" in line:
            job.end()

    job = Job(tell)
    compared: list[int] = []
    summarise = answers.summarise

    def counted(record: hw.Record, **how: Any) -> Any:
        found = summarise(record, **how)
        compared.append(len(found))
        return found

    monkeypatch.setattr(answers, "summarise", counted)
    with pytest.raises(GoneError):
        here.look({"model": "small", "text": TEXT})(job)
    assert not compared
    assert told[-1] == {"done": 1, "total": 2}
