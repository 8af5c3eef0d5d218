"""headwise heal: the tuned model saved, the gap to the control told, an interrupt that keeps what was done."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cli_help import Cli
from rich.console import Console
from torch import nn

import headwise as hw
from headwise.cut.healing.healed import Healed
from headwise.cut.losses import Loss
from headwise.show.terminal_heal import heal_page

TEXTS = [
    "It is a cat at a mat.",
    "It sat. It sat.",
    "小明把书还给了图书馆。",
    "A bat, a hat, a cat.",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS * 4), encoding="utf-8")
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.txt"
    path.write_text("A cat is at a hat.\nIt is a bat.", encoding="utf-8")
    return path


def tuning(corpus: Path, steps: int = 6) -> tuple[object, ...]:
    count = ("--steps", str(steps), "--every", "2", "--learning-rate", "0.003")
    return ("--texts", corpus, "--lines", *count)


def test_a_model_is_tuned_saved_and_held_against_its_control(
    cli: Cli, folder: Path, corpus: Path, other: Path, tmp_path: Path
) -> None:
    small, out, svg = tmp_path / "small", tmp_path / "healed", tmp_path / "heal.svg"
    assert cli("prune", folder, "--heads", "0.*", "-o", small).code == 0
    options = (*tuning(corpus), "--held-out", other, "--control", folder, "-o", out, "--svg", svg)
    found = cli("heal", small, *options, "--json", "-").data  # type: ignore[arg-type]
    held = other.read_text(encoding="utf-8").splitlines()
    assert found["before"]["mean"] == pytest.approx(hw.loss(hw.load(small), held).mean, rel=1e-4)
    assert found["after"]["mean"] == pytest.approx(hw.loss(hw.load(out), held).mean, rel=1e-4)
    assert found["after"]["mean"] < found["before"]["mean"] - 0.05
    control = found["control"]
    assert control["before"]["mean"] == pytest.approx(hw.loss(hw.load(folder), held).mean, rel=1e-4)
    assert [step for step, _ in found["held_out"]] == [0, 2, 4, 6]
    assert len(found["losses"]) == 6
    text = svg.read_text(encoding="utf-8")
    for told in ("(control)", "steps", "held-out loss (nats per token)", "other.txt"):
        assert told in text
    answer = cli("heal", small, *options[:-4])  # type: ignore[arg-type]
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("gap") for line in lines)
    assert "not saved; -o FOLDER saves the model" in answer.err


def test_an_interrupt_keeps_and_saves_what_was_done(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.cli.progress import StepProgress

    at, out = StepProgress.at, tmp_path / "healed"

    def interrupted(self: StepProgress, done: int, what: str) -> None:
        at(self, done, what)
        if done == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(StepProgress, "at", interrupted)
    answer = cli("heal", folder, *tuning(corpus, 50), "-o", out)  # type: ignore[arg-type]
    assert answer.code == 130
    assert "headwise: interrupted after " in answer.err
    assert "of AdamW" in answer.out
    assert "it ended early" in answer.out
    tuned, whole = hw.loss(hw.load(out), TEXTS).mean, hw.loss(hw.load(folder), TEXTS).mean
    assert tuned < whole


def healed(before: float, after: float, control: Healed | None = None, kept: int = 10) -> Healed:
    losses = [Loss(mean, 0.01, 1000, 20) for mean in (before, after)]
    looks = ((0, before), (10, after))
    return Healed(
        hw.Model("小", nn.Identity(), None, False),
        (before, after),
        looks,
        *losses,
        10,
        kept,
        "",
        {},
        control,
        5.0,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (healed(4.0, 3.7, healed(3.5, 3.4)), "40% of what the cut cost is mended"),
        (
            healed(4.0, 3.7, healed(3.5, 3.5)),
            "60% of what the cut cost is mended; the control gained nothing",
        ),
        (healed(4.0, 3.9, healed(3.5, 3.3)), "the gap to the control is no smaller"),
        (healed(3.5, 3.2, healed(3.5, 3.2)), "so there was nothing to mend"),
        (healed(9.0, 5.0, healed(3.5, 3.4)), "gives every token the same share (5.000)"),
        (healed(4.0, 4.0, kept=0), "so the model is as it was before; try a smaller"),
        (healed(4.0, 4.2, healed(3.5, 3.4)), "the held-out loss got worse"),
        (healed(4.0, 3.7), "without a control this does not tell mending from getting used to"),
    ],
)
def test_what_a_tuning_means_is_said_plainly(found: Healed, says: str) -> None:
    console = Console(width=80, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(heal_page(found, width=80))
    shown = " ".join(capture.get().split())
    assert says in shown
    assert f"小 {found.before.mean:.3f}" in shown  # type: ignore[union-attr]


MISTAKES = {
    "give texts to tune on": [],
    "missing.txt cannot be read": ["--texts", "missing.txt"],
    "heal reads one text and no --target": ["--texts", "CORPUS", "--target", "CORPUS"],
    "0 is not in the range": ["--texts", "CORPUS", "--steps", "0"],
    "learning_rate": ["--texts", "CORPUS", "--learning-rate", "-1"],
    "'heads' is not one of": ["--texts", "CORPUS", "--parts", "heads"],
    "there is no file or folder": ["--texts", "CORPUS", "--control", "/no/where"],
    "a folder is to be written": ["--texts", "CORPUS", "-o", "CORPUS"],
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, corpus: Path, says: str) -> None:
    more = [str(corpus) if x == "CORPUS" else x for x in MISTAKES[says]]
    answer = cli("heal", folder, *more)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]
