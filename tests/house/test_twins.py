"""docs/en and docs/zh-CN say the same: page by page, paragraph by paragraph, code for code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LANGUAGES = ("en", "zh-CN")
READMES = {"README.md": "en", "README.zh-CN.md": "zh-CN"}


def names(language: str) -> list[str]:
    folder = DOCS / language
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


PAGES = sorted({name for language in LANGUAGES for name in names(language)})


@cache
def tokens(path: Path) -> list[Token]:
    """The tokens of a page, those within lines and cells among them, in order."""
    parsed = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    return [token for one in parsed for token in (one, *(one.children or ()))]


def anchors(path: Path) -> list[str]:
    """The anchor of each heading, as GitHub and MyST make them."""
    pairs = pairwise(tokens(path))
    titles = [title.children or () for one, title in pairs if one.type == "heading_open"]
    words = ["".join(part.content for part in title).lower() for title in titles]
    return [re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in words]


def code(path: Path) -> list[tuple[str, str]]:
    """Info string and content of each block; of a directive ({figure} ...) its words are prose."""
    blocks = [one for one in tokens(path) if one.type in ("fence", "code_block")]
    return [(one.info, "" if one.info.startswith("{") else one.content) for one in blocks]


def spans(path: Path) -> set[str]:
    """What stands in the lines as code: names, options, head ids."""
    return {one.content for one in tokens(path) if one.type == "code_inline"}


def shape(path: Path) -> list[str]:
    """Every heading, paragraph, item, row and cell in order: nothing is said in one language alone."""
    return [one.tag for one in tokens(path) if one.block and one.nesting >= 0 and one.tag]


def pictures(path: Path) -> list[Path]:
    marked = [str(one.attrs["src"]) for one in tokens(path) if one.type == "image"]
    html = [one.content for one in tokens(path) if one.type in ("html_block", "html_inline")]
    return [
        path.parent / src for src in marked + re.findall(r'src(?:set)?="([^"]+)"', "".join(html))
    ]


def links(path: Path) -> Iterator[tuple[Path | str, str]]:
    """Each link of a page: a file and an anchor, or an address."""
    for one in tokens(path):
        if one.type != "link_open":
            continue
        target = unquote(str(one.attrs["href"]))
        if re.match(r"\w+:", target):
            yield target, ""
        else:
            file, _, anchor = target.partition("#")
            yield ((path.parent / file).resolve() if file else path), anchor


def place(file: Path | str, anchor: str) -> tuple[str, int]:
    """What a link leads to, whatever the language: a file, and the number of the heading (-1: none)."""
    if isinstance(file, str):
        return file, -1
    number = anchors(file).index(anchor) if anchor else -1
    parts = file.relative_to(ROOT).as_posix().split("/")
    if parts[0] in READMES:
        return "README", number
    if parts[0] == "docs":
        parts[1:2] = []
    return "/".join(parts), number


def language_of(file: Path) -> str | None:
    parts = file.relative_to(ROOT).parts
    spoken = parts[1] if parts[0] == "docs" else READMES.get(parts[0])
    return spoken if spoken in LANGUAGES else None


def both(name: str) -> tuple[Path, Path]:
    english, chinese = (DOCS / language / name for language in LANGUAGES)
    if not (english.exists() and chinese.exists()):
        pytest.skip("one of the two is missing")
    return english, chinese


def test_every_page_has_its_twin() -> None:
    assert names("en") == names("zh-CN")
    assert len(PAGES) > 10


@pytest.mark.parametrize("tell", [code, shape, spans], ids=lambda tell: tell.__name__)
@pytest.mark.parametrize("name", PAGES)
def test_twins_have_the_same(name: str, tell) -> None:
    english, chinese = both(name)
    assert tell(chinese) == tell(english)


@pytest.mark.parametrize("name", PAGES)
def test_twins_show_the_same_pictures(name: str) -> None:
    english, chinese = (pictures(path) for path in both(name))
    assert [path.name for path in chinese] == [path.name for path in english]
    assert all(path.exists() for path in english + chinese)


def test_the_readmes_have_the_same_shape() -> None:
    ours, theirs = (shape(ROOT / name) for name in READMES)
    assert ours == theirs


def test_links_of_the_readmes_lead_to_the_same_places() -> None:
    ours, theirs = ([place(*link) for link in links(ROOT / name)] for name in READMES)
    assert ours == theirs
    files = [file for file, _ in links(ROOT / "README.zh-CN.md") if isinstance(file, Path)]
    assert {language_of(file) for file in files if file.is_relative_to(DOCS)} == {"zh-CN"}
    assert all(file.exists() for file in files)


@pytest.mark.parametrize("name", PAGES)
def test_links_of_twins_lead_to_the_same_places_each_in_its_language(name: str) -> None:
    english, chinese = both(name)
    ours, theirs = (sorted({place(*link) for link in links(path)}) for path in (english, chinese))
    assert ours == theirs
    for page, language in zip((english, chinese), LANGUAGES, strict=True):
        for file, _ in links(page):
            if isinstance(file, Path):
                assert file.exists(), f"{page.name} links to {file}, which is not there"
                assert language_of(file) in (None, language), f"{page.name} links to {file.name}"
