"""The pages on reach and pangolinn: their code runs, their numbers are those of the code and the results."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from headwise.core import notation

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / "en" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), flags=re.DOTALL | re.MULTILINE)


def test_the_python_on_the_page_of_reach_runs() -> None:
    held: dict = {}
    exec(compile("\n".join(blocks("reach", "python")), "docs/en/reach.md", "exec"), held)
    assert held["found"].path(11, 4) is not None
    assert held["step"].start == 8
    assert held["flow"].clean
    assert held["flow"].says in page("reach")
    assert held["flow"].moved.shape == held["flow"].allowed.shape == (3, 12, 12)


@pytest.mark.parametrize(
    "line", [x for block in blocks("reach", "bash") for x in block.splitlines()]
)
def test_the_commands_on_the_page_of_reach_run(line: str, tmp_path, monkeypatch, capsys) -> None:
    from headwise.cli import main

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line)[1:])
    assert stop.value.code == 0, capsys.readouterr().err


def test_the_page_gives_the_grammar_and_the_limits_of_the_code() -> None:
    told = page("reach")
    assert " ".join(str(notation.__doc__).split("\n\n")[1].split()) in " ".join(told.split())
    for number in (notation.LONGEST, notation.MOST, notation.DEEPEST, notation.LARGEST):
        assert f" {number:,} " in told.replace(".", " ").replace("\n", " ")


def test_the_tables_on_the_page_of_pangolinn_are_the_results() -> None:
    rows = json.loads((ROOT / "benchmarks/results/leak_tests.json").read_text())["rows"]
    lines = {line.split(" | ")[0].strip("| "): line for line in page("pangolinn").splitlines()}
    for row in rows:
        cells = [cell.strip() for cell in lines[row["name"]].strip("| ").split(" | ")]
        for cell, counts in zip(cells[1:], [*row["pangolinn"], row["audit"]], strict=True):
            for said, times in counts.items():
                assert (f"{said} {times}" if len(counts) > 1 else said) in cell
    assert len(rows) > 30
