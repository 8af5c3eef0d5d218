"""What the site is checked by, and what Sphinx is taught: broken links, Chinese search, formulas."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from pages_help import ROOT

sys.path.append(str(ROOT / "docs" / "site"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two pages in two languages, with links that hold, and one outside."""
    (tmp_path / "zh-CN").mkdir()
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="zh-CN/b.html#页">b</a><a href="#top">up</a>'
        '<a href="https://example.org/">out</a>'
    )
    (tmp_path / "zh-CN" / "b.html").write_text('<h1 id="页">B</h1><a href="../a.html">a</a>')
    return tmp_path


def test_a_site_whose_links_hold_has_none_broken(site):
    from links import follow

    assert follow(site) == ([], {"https://example.org/": ["a.html"]})


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("gone.html", "gone.html leads to no file"),
        ("zh-CN/b.html#top", "zh-CN/b.html#top leads to no such place"),
        ("#nowhere", "#nowhere leads to no such place"),
        ("zh-CN/", "zh-CN/ leads to no file"),
    ],
)
def test_a_broken_link_is_told_with_its_page(site, link, says):
    from links import follow

    page = site / "a.html"
    page.write_text(page.read_text() + f'<a href="{link}">x</a>')
    assert follow(site)[0] == [f"a.html: {says}"]


def test_a_picture_that_is_not_there_is_told(site):
    from links import follow

    (site / "a.html").write_text('<img src="maps.svg">')
    assert follow(site)[0][0] == "a.html: maps.svg leads to no file"


def test_chinese_is_found_by_pairs_of_characters():
    pytest.importorskip("sphinx")
    from searching import Pairs

    assert Pairs({}).split("注意力头 attend 看") == ["注意", "意力", "力头", "attend", "看"]


def test_the_stemmer_that_search_names_is_there():
    sphinx = pytest.importorskip("sphinx")
    from searching import Pairs

    scripts = Path(sphinx.__file__).parent.rglob(Pairs.js_stemmer_rawcode)
    assert any(f"{Pairs.language_name}Stemmer" in script.read_text() for script in scripts)


def test_docstrings_are_told_as_they_are_written():
    pytest.importorskip("sphinx")
    from docstrings import prepare

    lines = ["The bias |a - b| of *.md.", "", "    f(**x)", "", "Args:", "    a: of `|b|`."]
    prepare(SimpleNamespace(config=None), "function", "f", None, None, lines)
    assert lines[0] == r"The bias \|a - b\| of \*.md."
    assert [line for line in lines if line.strip()][1:3] == [".. code-block:: python", "    f(**x)"]
    assert ":param a: of `|b|`." in lines


@pytest.fixture
def settings():
    """What docs/conf.py sets."""
    pytest.importorskip("sphinx")
    return runpy.run_path(str(ROOT / "docs/conf.py"))


def test_formulas_are_drawn_by_the_browser_alone(settings, tmp_path):
    from sphinx.application import Sphinx

    page = "# A\n\nA row of $d_k$, `$x$`, for $ 5 or 6 $.\n\n$$\n\\frac{d}{h}\n$$\n"
    (tmp_path / "index.md").write_text(page, encoding="utf-8")
    math = {name: value for name, value in settings.items() if "math" in name or "myst_" in name}
    asked = math | {"extensions": ["myst_parser", "formulas"]}
    out = tmp_path / "out"
    Sphinx(str(tmp_path), None, str(out), str(out), "html", asked, status=None).build()
    made = (out / "index.html").read_text(encoding="utf-8")
    assert made.count("<math ") == 2
    assert re.search(r'display="inline">.*<msub>', made)
    assert re.search(r'display="block">.*<mfrac>', made)
    assert "for $ 5 or 6 $." in made
    assert not re.search(r"src=\"https?:", made)


def site_pages() -> list[Path]:
    from contents import LANGUAGES, SHARED

    starts = [f"{each.start}.md" for each in LANGUAGES.values()]
    patterns = [*starts, *(f"{each.folder}/*.md" for each in LANGUAGES.values()), *SHARED]
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


@pytest.mark.parametrize("page", site_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_formulas_only_where_they_are_meant(page):
    reader = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, allow_space=False)
    read = reader.parse(page.read_text(encoding="utf-8"))
    found = [part for one in read for part in (one, *(one.children or ())) if "math" in part.type]
    assert bool(found) == (page.name == "claims.md")
    assert all("merror" not in convert(one.content) for one in found)
