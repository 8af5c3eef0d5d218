"""headwise train: a run from the command line, stopped, killed and gone on with; mistakes in one line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from cli_help import Cli, run, start
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import headwise as hw
from headwise.train.log import read_log

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = """
[model]
d_model = 16
num_layers = 1
num_heads = 2
dropout = 0.1

[train]
context = 16
rows = 4
steps = 6
dtype = "float32"
held_out = 0.1
evaluate_every = 3
save_every = 2

[tokenizer]
vocab_size = 270
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def same_run(one: Path, other: Path) -> bool:
    first, second = (load_file(x / "model.safetensors") for x in (one, other))
    lines = [
        [(x.step, x.loss, x.held_out, x.norm) for x in read_log(y / "log.csv")]
        for y in (one, other)
    ]
    return lines[0] == lines[1] and all(torch.equal(x, second[name]) for name, x in first.items())


def test_a_run_is_trained_and_every_command_reads_it(
    cli: Cli, text: Path, config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    answer = cli("train", text, "--config", config, "-o", out, "--steps", "5", "--set", "clip=0.5")
    assert answer.code == 0, answer.err
    assert "float32, as asked" in answer.err
    assert "trained 5 steps: loss " in answer.err
    assert f"wrote {out} (headwise's own form): read by hw.load" in answer.err
    held = {one.name for one in out.iterdir()}
    assert held >= {"run.toml", "log.csv", "checkpoints", "curves.png", "config.json"}
    assert held >= {"model.safetensors", "tokenizer.json"}
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "clip = 0.5" in (out / "run.toml").read_text()
    assert [x.step for x in read_log(out / "log.csv")] == [1, 2, 3, 4, 5]
    again = cli("train", "--resume", out).err
    assert "the run is done (5 of 5 steps); to go on from its weights: --init" in again
    assert "all 5 steps were made before: loss" in again
    assert "trained 5 steps" not in again
    assert cli("look", "--model", out, "2 men went").code == 0
    model = hw.load(str(out))
    assert model.tokenizer is not None
    assert model.tokenizer.decode(model.tokenizer.encode("3 men, 中").ids) == "3 men, 中"


def test_the_last_line_says_the_form_and_what_reads_it(
    cli: Cli, text: Path, config: Path, tmp_path: Path
) -> None:
    """The recipe that ships is a checkpoint of transformers; look reads what a model of pairs writes."""
    small, out, pairs = tmp_path / "small", tmp_path / "pairs", tmp_path / "pairs.tsv"
    few = ("--steps", "1", "--rows", "1", "--context", "16", "--set", "held_out=0")
    answer = cli("train", text, "--config", "small", "-o", small, *few)
    assert f"wrote {small} (a transformers checkpoint: llama): " in answer.err
    assert AutoModelForCausalLM.from_pretrained(small).config.num_hidden_layers == 4
    pairs.write_text("".join(f"{n} men\t{n} Leute\n" for n in range(40)), encoding="utf-8")
    answer = cli("train", pairs, "--config", config, "-o", out, "--objective", "pairs")
    assert f"and headwise generate --model {out}" in answer.err
    assert cli("generate", "3 men", "--model", out).code == 0
    answer = cli("look", "3 men", "--model", out)
    assert answer.code == 0, answer.err
    assert "cross" in answer.out


def test_interrupted_then_killed_it_goes_on_bit_for_bit(
    text: Path, config: Path, tmp_path: Path
) -> None:
    """Ctrl-C ends after the step that runs, with a checkpoint; then a kill; then it goes on to the end.

    Each part is a process of its own: the bits of one thread are not those of several.
    """
    whole, out = tmp_path / "whole", tmp_path / "run"
    options = (
        "--config",
        config,
        "--steps",
        "160",
        *("--set", "evaluate_every=50", "--set", "save_every=25"),
    )
    assert run("train", text, *options, "-o", whole).code == 0
    process = start("train", text, *options, "-o", out)
    _wait(out, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert b"stopping after the step that runs" in err
    assert b"stopped after step" in err
    assert f"headwise train --resume {out} goes on".encode() in err
    steps = len(read_log(out / "log.csv"))
    assert 3 <= steps < 160
    assert (out / "checkpoints" / f"step-{steps:08d}").exists()
    process = start("train", "--resume", out)
    _wait(out, steps + 5)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=100)
    assert len(read_log(out / "log.csv")) < 160
    answer = run("train", "--resume", out)
    assert answer.code == 0, answer.err
    assert "going on after step" in answer.err
    assert same_run(out, whole)


def _wait(run: Path, steps: int) -> None:
    end = time.monotonic() + 100
    while not (run / "log.csv").exists() or len(read_log(run / "log.csv")) < steps:
        assert time.monotonic() < end, "no step was made"
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ((), 2, "give texts to train on, or --resume RUN"),
        (("TEXT",), 2, "give the folder of the run: -o RUN"),
        (("TEXT", "-o", "RUN"), 2, "give a configuration: --config FILE"),
        (("TEXT", "--resume", "RUN"), 2, "give no texts and no other option but --device"),
        (("--resume", "RUN", "--steps", "9"), 2, "goes on with a run as it was asked for"),
        (("--resume", "RUN", "--by", "line"), 2, "goes on with a run as it was asked for"),
        (("--resume", "RUN"), 1, "holds no run (no run.toml)"),
        (("TEXT", "-o", "RUN", "-c", "smal"), 1, "did you mean small?"),
        (("TEXT", "-o", "RUN", "-c", "CONFIG", "--set", "clip"), 2, "must be NAME=VALUE"),
        (("TEXT", "-o", "RUN", "-c", "CONFIG", "--set", "clap=1"), 1, "did you mean clip?"),
        (
            ("TEXT", "-o", "RUN", "-c", "CONFIG", "--set", "steps=1\nrows=2"),
            2,
            "says more than one value",
        ),
        (("TEXT", "-o", "RUN", "-c", "CONFIG", "--rows", "0"), 1, "rows=0 must be a whole number"),
        (("TEXT", "-o", "RUN", "-c", "CONFIG", "--objective", "masks"), 2, "causal"),
        (("nowhere.txt", "-o", "RUN", "-c", "CONFIG"), 1, "nowhere.txt"),
        (("TEXT", "-o", "TEXT", "-c", "CONFIG"), 1, "cannot be written to"),
    ],
)
def test_mistakes_are_one_line(
    cli: Cli,
    text: Path,
    config: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    places = {"TEXT": text, "RUN": tmp_path / "run", "CONFIG": config}
    answer = cli("train", *(places.get(one, one) for one in options))
    assert answer.code == code, answer.err
    assert says in answer.err
    assert len(answer.err.strip().splitlines()) <= (4 if code == 2 else 1)
    assert not (tmp_path / "run").exists()
