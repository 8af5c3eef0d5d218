"""Not speed: a training killed ten times at random moments, against the same one undisturbed.

`headwise train` runs in a process of its own, on a text made of this repository's pages. Each of ten times it is
started (or goes on with --resume) and gets SIGKILL at a random moment; three of the ten as soon as a checkpoint is
half written. Then it goes on to its end. Weights and log must be those of a run that nobody disturbed, bit for bit
(of the log all but what a clock says), and at no moment may a checkpoint under its name be damaged.

    python benchmarks/killed.py [--kills 10] [--steps 300]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import machine, save

ROOT = Path(__file__).parent.parent
CONFIG = """
[model]
d_model = 128
num_layers = 4
num_heads = 4
dropout = 0.1

[train]
context = 64
rows = 8
steps = {steps}
warmup = 20
evaluate_every = 25
save_every = 5

[tokenizer]
vocab_size = 2048
"""
MID = (3, 6, 9)
"""The kills that wait for a checkpoint to be half written."""


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--kills", type=int, default=10)
    asked.add_argument("--steps", type=int, default=300)
    asked.add_argument("--seed", type=int, default=8)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as home:
        rows, same = measured(Path(home), given.kills, given.steps, given.seed)
    about = "# A training killed at random\n\n" + (__doc__ or "").split("\n\n")[1].replace(
        "\n", " "
    )
    lines = [
        "| kill | seconds after the start | steps in the log | half-written checkpoint | checkpoints, all whole |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(str(x) for x in row.values())} |" for row in rows),
        "",
        *(f"{what}: {said}." for what, said in same.items()),
    ]
    save("killed", about, [*rows, same], lines, machine(1))
    assert set(same.values()) == {"the same, bit for bit"}


def measured(
    home: Path, kills: int, steps: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    text, config = home / "text.txt", home / "recipe.toml"
    pages = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs/en").glob("*.md"))
    text.write_text("\n\n".join(path.read_text(encoding="utf-8") for path in pages))
    config.write_text(CONFIG.format(steps=steps))
    whole, run = home / "whole", home / "run"
    fresh = ("train", str(text), "--config", str(config), "-o")
    began = time.monotonic()
    ended(start(*fresh, str(whole)))
    chance, rows = random.Random(seed), []
    span = (time.monotonic() - began) / (kills + 1)
    for number in range(1, kills + 1):
        rows.append(kill(number, run, fresh, chance.uniform(0.1, 1.0) * span))
        print(rows[-1], flush=True)
    ended(start("train", "--resume", str(run)))
    return rows, {
        "weights": told(digest(whole / "model.safetensors") == digest(run / "model.safetensors")),
        "losses, rates and gradients' lengths of the log": told(log(whole) == log(run)),
    }


def kill(number: int, run: Path, fresh: tuple[str, ...], after: float) -> dict[str, Any]:
    """Start or go on, and kill: so long after the first new step, or when a checkpoint is half written."""
    began = (run / "run.toml").exists()
    process = start("train", "--resume", str(run)) if began else start(*fresh, str(run))
    done, first = (len(log(run)), time.monotonic()) if began else (0, time.monotonic())
    wait(process, lambda: (run / "log.csv").exists() and len(log(run)) != done)
    seen = time.monotonic()
    if number in MID:
        wait(process, lambda: half(run))
    else:
        time.sleep(after)
    assert process.poll() is None, "the run ended before it was killed; ask for more steps"
    process.kill()
    process.wait()
    return {
        "kill": number,
        "seconds": round(seen - first + (0 if number in MID else after), 2),
        "steps": len(log(run)),
        "half": "yes" if half(run) else "no",
        "checkpoints": ", ".join(whole_ones(run)) or "none yet",
    }


def whole_ones(run: Path) -> list[str]:
    """The steps of the checkpoints that stand; one that is damaged is an error."""
    import json

    found = []
    for place in sorted((run / "checkpoints").glob("step-*")):
        said = json.loads((place / "state.json").read_text())
        assert said["sha256"] == digest(place / "state.safetensors"), f"{place} is damaged"
        found.append(str(said["step"]))
    return found


def half(run: Path) -> bool:
    """Whether a checkpoint is there that was not moved into place."""
    return any(one.name.endswith(".part") and ".old" not in one.name for one in places(run))


def places(run: Path) -> list[Path]:
    return list((run / "checkpoints").iterdir()) if (run / "checkpoints").exists() else []


def wait(process: subprocess.Popen[bytes], ready: Any) -> None:
    while not ready():
        assert process.poll() is None, "the run ended before it was killed; ask for more steps"
        time.sleep(0.001)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "headwise", *arguments]
    return subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)


def ended(process: subprocess.Popen[bytes]) -> None:
    assert process.wait() == 0, f"{process.args} failed"


def log(run: Path) -> list[list[str]]:
    """The whole lines of a log, without what a clock says."""
    path = run / "log.csv"
    text = path.read_text() if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()[1:]
    return [line.split(",")[:6] for line in lines]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def told(same: bool) -> str:
    return "the same, bit for bit" if same else "NOT THE SAME"


if __name__ == "__main__":
    main()
