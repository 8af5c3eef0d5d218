"""docs/en/blocks.md: its code runs, and says what it prints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from headwise.nn import build
from headwise.nn.families import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "en" / "blocks.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_code_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("python"))
    made: dict[str, object] = {}
    exec(compile(code, "blocks.md", "exec"), made)
    said = re.findall(r"print\(.*?\)\s+# (.*)", code)
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 3
    assert made["said"] == "llama"


def test_the_file_builds():
    (toml,) = blocks("toml")
    scaling = build(tomllib.loads(toml)["model"]).config.rope_scaling
    assert scaling is not None
    assert scaling.kind == "llama3"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_on_the_page(name):
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    kinds = [row.split("|")[2].strip() for row in rows if f"`{name}`" in row.split("|")[1]]
    assert kinds == [FAMILIES[name].model.__name__]
