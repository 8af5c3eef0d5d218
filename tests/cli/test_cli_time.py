"""headwise time: ratios of two models, no gain told as none, and every mistake in one line. No time is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_help import Cli
from rich.console import Console

from headwise.cut.timing.result import Case, Timed, Timing
from headwise.cut.timing.spread import Spread
from headwise.show.terminal_timing import timing_table


def shown(timing: Timing, width: int = 80) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(timing_table(timing, width=width, colour=False))
    return capture.get()


def told(timing: Timing) -> str:
    return " ".join(shown(timing).split())


def case(phase: str, low: float, median: float, high: float, length: int = 128) -> Case:
    one, other = Spread(0.010, 0.009, 0.011), Spread(0.010 * median, 0.009, 0.011)
    return Case(phase, 1, length, one, other, Spread(median, low, high), (23040, 11520))  # type: ignore[arg-type]


def timing(*cases: Case) -> Timing:
    a, b = Timed("whole", 134_500_000, 538_000_000), Timed("小", 100_000, 400_000)
    return Timing(a, b, cases, 9, "cpu", 1, "cpu", "float32")


def test_a_gain_is_told_where_there_is_one_and_none_where_there_is_none() -> None:
    found = timing(
        case("prefill", 0.78, 0.80, 0.83), case("decode", 0.97, 0.99, 1.02),
        case("prefill", 1.1, 1.2, 1.3, 1024),
    )  # fmt: skip
    lines = shown(found).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines if line.startswith(("prefill", "decode"))]
    assert [row[7] for row in rows[:1]] == ["0.80"]
    assert "faster" in lines[4]
    assert "no gain" in lines[5]
    assert "slower" in lines[6]
    assert lines[4].endswith("faster   0.50 x")
    said = told(found)
    assert "B is faster in prefill (batch 1, length 128: 0.80 x)" in said
    assert "slower in prefill (batch 1, length 1,024: 1.20 x); no gain in the other 1" in said
    assert "A whole: 134.5 M parameters, 513.1 MiB" in said
    none = timing(case("prefill", 0.97, 0.99, 1.02), case("decode", 0.96, 0.99, 0.999))
    assert "B is no faster than A in any of these cases" in told(none)
    assert "B is faster" not in told(none)


def test_the_cache_is_left_out_where_there_is_no_room() -> None:
    lines = shown(timing(case("prefill", 0.78, 0.80, 0.83)), width=72).splitlines()
    assert max(map(len, lines)) <= 72
    assert "cache" not in "\n".join(lines)
    assert any("faster" in line for line in lines)


def test_two_models_and_one(cli: Cli, folder: Path) -> None:
    options = ("--length", "16", "--batch", "1", "--batch", "2", "--rounds", "2", "--threads", "1")
    found = cli("time", folder, folder, *options, "--json", "-").data
    assert [(c["phase"], c["batch"]) for c in found["cases"]] == [
        ("prefill", 1), ("decode", 1), ("prefill", 2), ("decode", 2),
    ]  # fmt: skip
    assert found["a"]["parameters"] == found["b"]["parameters"] > 10_000
    assert all(c["ratio"]["median"] > 0 and c["verdict"] for c in found["cases"])
    answer = cli("time", folder, "--length", "16", "--rounds", "1")
    assert answer.code == 0
    assert "B / A" not in answer.out
    assert "range" not in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--length", "9000"], "8000"),
        (["--phase", "both"], "'both' is not one of"),
        (["--rounds", "0"], "0 is not in the range"),
        (["--json", "missing/x"], "the JSON cannot be written to"),
        (["--dtype", "int8"], "'int8' is no dtype for weights"),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, folder: Path, more: list[str], says: str) -> None:
    answer = cli("time", folder, *more)
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert says in answer.err.strip().splitlines()[-1]


def test_a_model_that_is_not_there(cli: Cli, folder: Path) -> None:
    answer = cli("time", folder, "nowhere/at/all")
    assert answer.code == 1
    assert answer.err.strip().splitlines()[-1].startswith("headwise: there is no file or folder")


@pytest.mark.models
def test_an_encoder_has_one_phase(cli: Cli) -> None:
    answer = cli("time", "minilm", "--length", "16", "--rounds", "2")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()[2:4]] == ["phase", "forward"]
