"""The viewer's modules as one script: nothing is left to import, and nothing comes from elsewhere."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from headwise.show.page.bundle import script, style

WEB = Path(str(files("headwise.show"))) / "web" / "viewer"
MODULES = sorted(WEB.rglob("*.js"))
ENTRIES = [
    path.name
    for path in sorted(WEB.glob("*.js"))
    if not re.search(r"^export (?!default)", path.read_text("utf-8"), re.M)
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_one_script(entry: str) -> None:
    text = script(entry)
    assert not re.findall(r"^\s*import\b", text, re.M)
    assert not re.findall(r"^export (?!default)", text, re.M)
    for module in re.findall(r"^const .* = (\$\w+);$", text, re.M):
        assert (
            text.count(f"\nconst {module} = (() => {{") + text.startswith(f"const {module} =") == 1
        )


def test_every_import_is_one_the_bundle_understands() -> None:
    for path in MODULES:
        text = path.read_text("utf-8")
        plain = re.findall(r"^import .*$", text, re.M)
        assert len(plain) == len(
            re.findall(r'^import \{[^}]*\} from "\.\.?/[\w/-]+\.js";$', text, re.M)
        ), path.name


def test_the_viewer_asks_nothing_of_another_host() -> None:
    texts = [style(), *(path.read_text("utf-8") for path in MODULES)]
    for text in texts:
        found = re.findall(r"https?://[^\s\"'`]+|@import|url\([^#]", text)
        assert all(one.startswith("http://www.w3.org/") for one in found), found


@pytest.mark.parametrize("path", [*MODULES, *sorted(WEB.rglob("*.css"))], ids=lambda p: p.name)
def test_files_stay_short(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= 350, f"{lines} lines: two things may live in one file"
