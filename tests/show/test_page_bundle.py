"""The viewer's modules can stand one after the other in one script: every name at their top is there once."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from headwise.show.page.bundle import script, style

WEB = Path(str(files("headwise.show"))) / "web" / "viewer"
MODULES = sorted(WEB.glob("*.js"))
ENTRIES = [
    path.name
    for path in MODULES
    if not re.search(r"^export (?!default)", path.read_text("utf-8"), re.M)
]
TOP = re.compile(
    r"^(?:export )?(?:async )?(?:function\*?|const|let|class) ([\w$]+|\{[^}]*\}|\[[^\]]*\])", re.M
)


def names_of(text: str) -> list[str]:
    """The names at the top of a module."""
    return [name for found in TOP.findall(text) for name in re.findall(r"[\w$]+", found)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_one_script_of_different_names(entry: str) -> None:
    text = script(entry)
    assert not re.findall(r"^\s*import\b", text, re.M)
    assert not re.findall(r"^export (?!default)", text, re.M)
    twice = [name for name, times in Counter(names_of(text)).items() if times > 1]
    assert not twice, f"two modules of {entry} have the names {twice}; give each its own"


def test_every_import_is_one_the_bundle_understands() -> None:
    for path in MODULES:
        text = path.read_text("utf-8")
        plain = re.findall(r"^import .*$", text, re.M)
        assert len(plain) == len(
            re.findall(r'^import \{[^}]*\} from "\./[\w-]+\.js";$', text, re.M)
        ), path.name


def test_the_viewer_asks_nothing_of_another_host() -> None:
    texts = [style(), *(path.read_text("utf-8") for path in MODULES)]
    for text in texts:
        found = re.findall(r"https?://[^\s\"'`]+|@import|url\([^#]", text)
        assert all(one.startswith("http://www.w3.org/") for one in found), found


@pytest.mark.parametrize("path", [*MODULES, *sorted(WEB.glob("*.css"))], ids=lambda p: p.name)
def test_files_stay_short(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= 350, f"{lines} lines: two things may live in one file"
