"""docs/*/pangolinn.md: the tables of each language are the committed results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import leak_pages  # noqa: E402

HELD = json.loads(leak_pages.RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", leak_pages.LANGUAGES)
def test_the_tables_are_the_results(language: str) -> None:
    page = (ROOT / "docs" / language / "pangolinn.md").read_text(encoding="utf-8")
    _, mark, below = page.partition(leak_pages.MARK)
    assert mark
    assert below == f"\n{leak_pages.below(HELD, language)}", "run python benchmarks/leak_pages.py"


def test_every_module_has_a_chinese_name_of_its_own() -> None:
    names = [row["name"] for row in HELD["rows"]]
    assert len({leak_pages.CHINESE[name] for name in names}) == len(names) > 30
