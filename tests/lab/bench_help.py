"""A bench that trains on a little made-up text for a few steps: for how a thing is measured, not what comes out."""

from __future__ import annotations

import random
import re
from importlib.resources import files

import pytest

from headwise.lab import bench as benches
from headwise.lab.bench import Bench
from headwise.lab.text import LabText
from headwise.lab.words import LANGUAGES

_PARTS = {"code", "table", "picture", "verdict", "findings"}
_WORDS = ("the cat dog king river sees chases crosses and old wise small " + "猫 狗 追 。").split()


def small_text(paragraphs: int = 120) -> LabText:
    """Paragraphs of 30 words of chance."""
    chance = random.Random(7)
    made = [" ".join(chance.choices(_WORDS, k=30)) for _ in range(paragraphs)]
    cut = paragraphs // 10
    return LabText("made up", "0", tuple(made[cut:]), tuple(made[:cut]))


def small_bench(monkeypatch: pytest.MonkeyPatch, steps: int = 4) -> Bench:
    """It trains for so many steps on 4 rows of 16 tokens."""
    for name, value in {"VOCAB": 280, "CONTEXT": 16, "ROWS": 4, "STEPS": steps}.items():
        monkeypatch.setattr(benches, name, value)
    return Bench(small_text())


def named(claim: str) -> set[str]:
    """The figures that a claim's lesson names, which is the same in both languages."""
    lessons = files("headwise.lab") / "lessons"
    told = [(lessons / language / f"{claim}.md").read_text("utf-8") for language in LANGUAGES]
    one, other = (set(re.findall(r"{{(\w+)}}", text)) for text in told)
    assert one == other
    assert one >= _PARTS
    return one - _PARTS
