"""The pages of the repository: their code blocks, and running the commands among them as they are typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_HERE = ("make ", "python3 -m venv", ". .venv/bin/activate", "pip install", "headwise serve")
"""What a test does not run: setting up, and a server, which does not end."""


def guides(language: str = "en") -> list[str]:
    """The guides of a language, as paths from the root."""
    return [
        f"docs/{language}/{path.name}" for path in sorted((ROOT / "docs" / language).glob("*.md"))
    ]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """What stands in the fences of this language."""
    fenced = rf"^```{language}\n(.*?)^```"
    return re.findall(fenced, text_of(page), flags=re.DOTALL | re.MULTILINE)


def statements(block: str) -> list[str]:
    """The commands of a block: a line each, a here-document whole, without remarks."""
    found: list[str] = []
    end = ""
    for line in block.splitlines():
        if end:
            found[-1] += f"\n{line}"
            end = "" if line == end else end
            continue
        line = re.sub(r"\s+#.*|^#.*", "", line)
        here = re.search(r"<<'(\w+)'", line)
        end = here[1] if here else ""
        if line:
            found.append(line)
    return found


def run(statement: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Run a command in this folder; headwise in this process, as it takes seconds to import. Whether it ran."""
    if statement.startswith(NOT_HERE):
        return False
    if statement.startswith("headwise "):
        from headwise.cli import main

        with pytest.raises(SystemExit) as stop:
            main(shlex.split(statement)[1:])
        assert stop.value.code == 0, f"{statement}: {capsys.readouterr().err}"
        return True
    typed = statement.replace("headwise ", f"{sys.executable} -m headwise ")
    typed = typed.replace("python docs/", f"{sys.executable} {ROOT}/docs/")
    subprocess.run(["bash", "-euo", "pipefail", "-c", typed], check=True)
    return True


def prepare(folder: Path, page: str) -> None:
    """The files a page takes as given, in the folder its commands run in."""
    (folder / "docs/en/pictures").mkdir(parents=True)
    (folder / "docs/zh-CN").mkdir(parents=True)
    if (ROOT / "evidence/lab").exists():
        (folder / "evidence").mkdir()
        (folder / "evidence/lab").symlink_to(ROOT / "evidence/lab")
    (folder / "story.txt").write_text("Once upon a time there was a head.", encoding="utf-8")
    book = "\n".join(text_of(guide) for guide in guides())
    (folder / "book.txt").write_text(book, encoding="utf-8")
    for block in blocks(page, "python"):
        if block.startswith("# my_model.py\n"):
            (folder / "my_model.py").write_text(block, encoding="utf-8")
