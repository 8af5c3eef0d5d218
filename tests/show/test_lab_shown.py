"""The lab shown: lessons filled, tables, pages and pictures, and what is refused."""

import re

import numpy as np
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

import headwise.lab
import lab_help
from headwise.lab.claim import Line, Panel
from headwise.lab.claims import CLAIMS, claim_of
from headwise.lab.results import Results, Row
from headwise.lab.running import Run
from headwise.lab.words import LANGUAGES, Words
from headwise.names import ConfigError, ShapeError
from headwise.show.lab.html import page_of
from headwise.show.lab.lesson import PARTS, code_of, lesson, markdown_table
from headwise.show.lab.picture import draw_panels, draw_run
from headwise.show.lab.report import demoted, report_text
from headwise.show.lab.tables import Table, results_table
from headwise.show.lab.terminal import claim_shown, run_shown

HERE = [
    name
    for name in CLAIMS
    if (lab_help.Path(headwise.lab.__file__).parent / "claims" / f"{name}.py").exists()
]


def run(**changes):
    rows = [
        Row({"size": size}, seed, {"double": 2.0 * size + seed / 100})
        for size in (1, 2)
        for seed in (0, 1)
    ]
    asked = {"quick": True, "seed": 0, "text": "a text", "threads": 1}
    return Run(lab_help.claim(**changes), Results(rows), asked, True)


@pytest.fixture
def lessons(monkeypatch, tmp_path):
    return lab_help.registered(monkeypatch, tmp_path / "lessons")


def test_a_lesson_is_filled(lessons):
    text = lesson(run(), "zh-CN", "tiny.svg")
    for part in (
        "一个事实",
        "![加倍](tiny.svg)",
        "**成立.** 加倍。",
        "def _doubled",
        "| 大小 | 两倍 |",
    ):
        assert part in text
    assert "{{" not in text


@pytest.mark.parametrize("part", PARTS)
def test_a_lesson_without_a_part_is_refused(lessons, part):
    path = lessons / "en" / "tiny.md"
    path.write_text(lab_help.LESSON.replace(f"{{{{{part}}}}}", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"tiny.md has no line {{{{{part}}}}}"):
        lesson(run(), "en", "x")


def test_a_lesson_that_is_not_there_or_asks_too_much_is_refused(lessons):
    path = lessons / "en" / "tiny.md"
    path.write_text(lab_help.LESSON + "{{nobody}}", encoding="utf-8")
    with pytest.raises(ConfigError, match="asks for nobody"):
        lesson(run(), "en", "x")
    path.unlink()
    with pytest.raises(ConfigError, match=r"tiny\.md cannot be read"):
        lesson(run(), "en", "x")


def test_the_code_is_all_that_measure_uses():
    code = code_of(lab_help.measure)
    assert code.index("SLOW") < code.index("def measure") < code.index("def _doubled")
    assert "def judge" not in code
    compile(code, "lesson", "exec")


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_has_its_parts_and_no_figures(name, language):
    from headwise.show.lab.lesson import lesson_text

    _, text = lesson_text(name, language)
    lines = text.splitlines()
    assert all(f"{{{{{part}}}}}" in lines for part in PARTS)
    assert not re.search(r"\d\.\d\d+", re.sub(r"```.*?```", "", text, flags=re.S))
    claim = claim_of(name)
    assert (claim.name, claim.row) == (name, CLAIMS[name])
    assert code_of(claim.measure)


def test_cells_with_bars_stay_in_their_column():
    table = markdown_table(Table(("a|b", "c"), (("1", "x|y"),), 1))
    page = MarkdownIt("commonmark").enable("table").render(table)
    assert '<td style="text-align:right">x|y</td>' in page


def test_a_page_stands_alone(lessons):
    text = report_text(run(), "en", "tiny.svg")
    svg = '<?xml version="1.0"?>\n<svg width="1"><path/></svg>'
    page = page_of(text, "en", {"tiny.svg": svg})
    assert "<math" in page
    assert "<mfrac>" in page
    assert '<svg role="img" aria-label="Doubling" width="1">' in page
    assert 'class="interval">[' in page
    assert "prefers-color-scheme: dark" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)


def test_headings_go_down_but_not_in_code():
    assert demoted("## a\n```\n## b\n```\n# c") == "### a\n```\n## b\n```\n## c"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_of_any_width(lessons, width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(run_shown(run(), "en", width))
    told = console.export_text()
    assert max(map(len, told.splitlines())) <= width
    assert "Verdict: holds" in told
    assert "2.00" in told


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_terminal_is_spared_tex_that_the_report_has(lessons, language):
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(claim_shown(lab_help.CLAIM, language))
    told = console.export_text()
    assert lab_help.CLAIM.says.of(language) in told
    assert "\\" not in told
    assert lab_help.CLAIM.formula in report_text(run(), language, "x")


def test_small_numbers_are_no_zeros():
    rows = [Row({"size": 1}, seed, {"double": 1e-7 * (2 + seed)}) for seed in (0, 1)]
    cells = results_table(Run(lab_help.CLAIM, Results(rows), {}, True), "en").rows[0]
    assert cells[1].startswith("2.5e-07 [")


def test_the_picture_has_lines_bars_and_words():
    figure = draw_run(run(), "zh-CN")
    first, second = figure.axes
    assert first.get_xscale() == "log"
    assert [label.get_text() for label in first.get_xticklabels()] == ["1", "2"]
    assert first.get_xlabel() == "大小"
    assert len(second.patches) == 4
    assert [label.get_text() for label in second.get_xticklabels()] == ["一", "二"]


def test_a_panel_without_a_line_or_with_a_short_one_is_refused():
    x = Words("x", "x")
    with pytest.raises(ShapeError, match="needs a panel"):
        draw_panels([Panel([], x, x)], "en", caption="")
    short = Line(x, np.arange(3.0), np.arange(2.0))
    with pytest.raises(ShapeError, match="3, 2 points"):
        draw_panels([Panel([short], x, x)], "en", caption="")
