"""A claim for the tests of the lab: small, and without training; put in place of the lab's own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.results import Case, Results
from headwise.lab.words import Words

SLOW = 0.0
"""Seconds that a measurement takes, in which it can be stopped."""
HALF = 0.5
LESSON = """The words of the lesson, {{fact}}.

## Code

{{code}}

{{table}}

{{picture}}

{{verdict}}

{{findings}}
"""


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """Twice the size, and the luck of the seed."""
    for _ in range(round(SLOW * 100)):
        time.sleep(0.01)
        if bench.stop():
            from headwise.lab.bench import Stopped

            raise Stopped
    return {"double": _doubled(float(case["size"])) + np.random.default_rng(seed).normal() / 100}


def _doubled(x: float) -> float:
    return x / HALF


def judge(results: Results) -> Verdict:
    value = results.difference("double", {"size": 2}, {"size": 1})
    says = Words("from 1 to 2 it grows by", "从 1 到 2 增加")
    found = Finding("growth", says, value, value.above(0))
    return Verdict.of([found], Words("It doubles | all.", "加倍。"))


def panels(results: Results) -> list[Panel]:
    found = [results.mean("double", size=size) for size in (1, 2)]
    x, y = Words("size", "大小"), Words("double", "两倍")
    ticks = [Words("one", "一"), Words("two", "二")]
    line = Line.of(Words("double", "两倍"), (1, 2), found)
    bars = Line.of(Words("double", "两倍"), (0, 1), found)
    levels = [(Words("none", "没有"), 0.0)]
    return [Panel([line], x, y, log_x=True, levels=levels), Panel([bars, bars], x, y, ticks=ticks)]


def claim(**changes: object) -> Claim:
    fields: dict[str, object] = {
        "name": "tiny",
        "row": "C99",
        "title": Words("Doubling", "加倍"),
        "says": Words("What is twice as large is doubled.", "大一倍就是加倍。"),
        "formula": r"y = \frac{x}{1/2}",
        "asks": Words("Numbers are doubled.", "把数加倍。"),
        "cases": lambda quick: [{"size": 1}, {"size": 2}],
        "seeds": (2, 3),
        "measure": measure,
        "quantities": (Quantity("double", Words("double", "两倍"), 2),),
        "judge": judge,
        "panels": panels,
        "sources": ("A book",),
        "facts": lambda results: {"fact_en": "a fact", "fact_zh": "一个事实"},
        "labels": {"size": Words("size", "大小")},
    }
    return Claim(**{**fields, **changes})  # type: ignore[arg-type]


CLAIM = claim()


def registered(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let the lab hold this claim alone; its lessons lie in the folder that comes back."""
    from headwise.lab import claims
    from headwise.show.lab import lesson

    monkeypatch.setattr(claims, "CLAIMS", {"tiny": "C99"})
    for module in ("headwise.cli.lab.running", "headwise.cli.lab.folders"):
        __import__(module)
        monkeypatch.setattr(sys.modules[module], "CLAIMS", claims.CLAIMS)
    monkeypatch.setitem(sys.modules, "headwise.lab.claims.tiny", sys.modules[__name__])
    monkeypatch.setattr(lesson, "LESSONS", folder)
    intro = "# Course\n\n{{verdicts}}\n\n{{asked}}, {{minutes}} minutes.\n"
    for language in ("en", "zh-CN"):
        (folder / language).mkdir(parents=True)
        (folder / language / "tiny.md").write_text(LESSON, encoding="utf-8")
        (folder / language / "index.md").write_text(intro, encoding="utf-8")
    return folder


def text_file(folder: Path) -> Path:
    """A text of enough made-up paragraphs."""
    words = ["and", "the", "light", "was", "good", "because", "they", "saw", "that", "it", "came"]
    rng = np.random.default_rng(0)
    path = folder / "text.txt"
    lines = [" ".join(rng.choice(words, 30)) for _ in range(1800)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
