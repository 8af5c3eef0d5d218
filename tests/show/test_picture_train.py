"""The curves of a training: what is drawn of a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import nn

from headwise.show.picture_train import draw_run
from headwise.train.log import Line
from headwise.train.run import Run


def run_of(steps: int, every: int) -> Run:
    lines = [
        Line(n, 10 / n, 11 / n if n % every == 0 else None, 0.1, 1.0, 7 * n, 3, 0.5 * n)
        for n in range(1, steps + 1)
    ]
    return Run(nn.Linear(1, 1), tuple(lines), Path("somewhere/mine"), "")


def drawn(run: Run):
    (axes,) = draw_run(run).axes
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_a_short_run_is_drawn_step_by_step():
    lines = drawn(run_of(6, 3))
    np.testing.assert_allclose(lines["trained on"], [[n, 10 / n] for n in range(1, 7)])
    np.testing.assert_allclose(lines["held out"], [[3, 11 / 3], [6, 11 / 6]])


def test_a_long_run_is_averaged_over_neighbours():
    run = run_of(130, 1000)
    lines = drawn(run)
    assert list(lines) == ["trained on"]
    parts = [range(n, min(n + 3, 131)) for n in range(1, 131, 3)]
    wanted = [[np.mean(part), np.mean([10 / n for n in part])] for part in parts]
    np.testing.assert_allclose(lines["trained on"], wanted)
    texts = " ".join(text.get_text() for text in draw_run(run).texts)
    assert "means of 3 steps" in " ".join(texts.split())
    assert "mine: 130 steps, 910 tokens" in " ".join(texts.split())
