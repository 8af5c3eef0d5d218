"""What a newcomer is told before the first step, of a done run, of the time left; which held-out rows are seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fit_help import ROWS, Counting, recipe, same, tiny, trained

import headwise as hw
from headwise.names import ConfigError, TextError
from headwise.train import course
from headwise.train.fitting import fit

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = {
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2},
    "train": {"rows": 4, "steps": 2, "dtype": "float32", "held_out": 0.1, "warmup": 0},
    "tokenizer": {"vocab_size": 270},
}


def with_(**tables) -> dict:
    return {name: {**table, **tables.get(name, {})} for name, table in CONFIG.items()}


@dataclass(frozen=True)
class Watched(Counting):
    """Notes how many rows it was asked for, batch by batch."""

    asked: list[int] = field(default_factory=list)

    def batch(self, step, rows=None):
        self.asked.append(rows.stop - rows.start)
        return super().batch(step, rows)


@pytest.mark.parametrize(
    ("fields", "each"),
    [
        ({}, [ROWS]),
        ({"steps": 40, "evaluate_every": 20}, [ROWS, ROWS]),
        ({"held_out_rows": 8}, [ROWS, 2]),
        ({"held_out_rows": 1000}, [ROWS] * 4),
    ],
)
def test_a_look_sees_some_rows_and_the_last_sees_all(tmp_path, fields, each):
    asked = recipe(**{"evaluate_every": 6, **fields})
    held = Watched(seed=1, rows=asked.rows)
    fit(tiny(), Counting(rows=asked.rows), held, asked, tmp_path / "run", quiet=True)
    assert held.asked[: len(each)] == each
    assert sum(held.asked[len(each) :]) == held.count


def test_a_run_with_few_held_out_rows_goes_on_bit_for_bit(tmp_path):
    asked = recipe(held_out_rows=8)
    whole = trained(tmp_path / "whole", recipe=asked)
    steps = iter(range(1, 100))
    trained(tmp_path / "half", recipe=asked, stop=lambda: next(steps) == 6)
    again = trained(tmp_path / "half", recipe=asked, resume=True)
    assert same(again, whole)
    assert again.before == 6


def test_the_time_left_counts_looks_and_saves(tmp_path, monkeypatch):
    """A clock by which a look takes 100 seconds and nothing else takes any."""
    clock, told = [0.0], []
    monkeypatch.setattr(course.time, "perf_counter", lambda: clock[0])

    def look(self, feed, most=None):
        clock[0] += 100
        return 1.0

    monkeypatch.setattr(course.Stepper, "look", look)
    trained(tmp_path / "run", progress=lambda done, total, what: told.append((done, what)))
    lines = {done: what for done, what in told if "loss" in what}
    assert "left" not in lines[3]
    assert lines[4].endswith("0:03:20 left")
    assert lines[8].endswith("0:01:40 left")
    assert sum(what == "looking at the held-out text" for _, what in told) == 3


def test_what_is_done_before_the_first_step_is_told(tmp_path):
    path, told = tmp_path / "book.txt", []
    path.write_text(TEXT)
    config = with_(train={"context": 16})
    hw.fit([path], config, tmp_path / "run", quiet=True, progress=lambda *said: told.append(said))
    words = [what for done, total, what in told if (done, total) == (0, 2)]
    assert words[:5] == [
        "reading 5 kB",
        "making a tokenizer",
        "reading the held-out text into tokens (0%)",
        "reading the held-out text into tokens (100%)",
        "reading the text into tokens (0%)",
    ]


def test_a_done_run_says_so(tmp_path, capfd):
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    hw.fit([path], with_(train={"context": 16}), tmp_path / "run", quiet=True)
    capfd.readouterr()
    again = hw.train.starting.resume(tmp_path / "run")
    assert again.before == again.steps == 2
    said = f"the run is done (2 of 2 steps); to go on from its weights: --init {tmp_path / 'run'}"
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("positions", ["rope", "alibi", "sinusoidal"])
def test_a_context_beyond_the_model_is_refused(tmp_path, positions):
    config = with_(model={"positions": positions, "max_length": 8}, train={"context": 16})
    with pytest.raises(ConfigError, match=r"context=16 tokens do not fit into max_length=8"):
        hw.fit([TEXT], config, tmp_path / "run", quiet=True)


def test_where_no_context_is_said_it_is_the_model_s_own(tmp_path):
    hw.fit([TEXT], with_(train={"context": 16}), tmp_path / "one", quiet=True)
    asked = {"train": CONFIG["train"]}
    run = hw.fit([TEXT], asked, tmp_path / "two", init=str(tmp_path / "one"), quiet=True)
    assert "context = 16\n" in (tmp_path / "two" / "run.toml").read_text()
    init = str(tmp_path / "one")
    again = hw.fit([TEXT], asked, tmp_path / "two", init=init, quiet=True, resume=True)
    assert same(run, again)
    said = {"train": {**CONFIG["train"], "context": 256}}
    with pytest.raises(ConfigError, match="context=256 tokens do not fit into max_length=16"):
        hw.fit([TEXT], said, tmp_path / "three", init=init, quiet=True)


def test_the_name_of_a_file_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text(TEXT)
    with pytest.raises(TextError, match=r"'book.txt' is the name of a file.*Path\('book.txt'\)"):
        hw.fit("book.txt", CONFIG, tmp_path / "run", quiet=True)


def test_a_warm_up_that_is_too_long_is_told(tmp_path, capfd):
    for warmup, is_told in ((2, True), (1, False)):
        config = with_(train={"context": 16, "warmup": warmup})
        hw.fit([TEXT], config, tmp_path / f"{warmup}")
        line = f"warmup={warmup} of 2 steps: the rate never gets to its height"
        assert (line in capfd.readouterr().err) == is_told
