"""The page around the panels: its layout, what its address says, its looks, and what it does with damage."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_help import asked, drawn, head_of, two_viewers, until_asked, with_index

from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

WIDE = "() => document.scrollingElement.scrollWidth - window.innerWidth"
PAPER = "() => getComputedStyle(document.querySelector('.headwise')).backgroundColor"
BOX = """(name) => {
  const { left, top, right, bottom } = document.querySelector(name).getBoundingClientRect();
  return [left, top, right, bottom];
}"""
TINTS = """() => new Set([...document.querySelectorAll('[data-head]')]
  .map((one) => getComputedStyle(one).backgroundColor)).size"""


@pytest.fixture
def path(page_file: Callable[..., Path], tiny_records: dict[str, Record]) -> Path:
    return page_file(
        tiny_records["decoder"], Scene(tiny_records["encoder"], note="0.1 set to zero")
    )


def notice(page: Page) -> str:
    drawn(page)
    return " ".join(page.locator(".hw-notice:visible span").all_text_contents())


@pytest.mark.parametrize("width", [360, 700, 1440, 3840])
@pytest.mark.parametrize("name", ["decoder", "encoder-decoder", "mixed"])
def test_nothing_stands_out_of_the_page_at_any_width(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    shot: Callable[..., Path],
    name: str,
    width: int,
) -> None:
    size = {"width": width, "height": 800}
    with open_page(browser, page_file(tiny_records[name]), viewport=size) as page:
        page.wait_for_selector("[data-head]")
        drawn(page)
        shot(page, f"{name}-{width}")
        assert page.evaluate(WIDE) <= 0
        grid, stage = page.evaluate(BOX, ".hw-left"), page.evaluate(BOX, ".hw-stage")
        assert grid[3] <= stage[1] if width == 360 else grid[2] <= stage[0]


def test_the_heading_says_what_this_is(
    browser: Browser, path: Path, tiny_records: dict[str, Record]
) -> None:
    first = tiny_records["decoder"]
    with open_page(browser, path) as page:
        page.wait_for_selector("[data-head]")
        assert page.get_by_role("heading", level=1).text_content() == first.text
        facts = page.locator(".hw-facts").text_content() or ""
        assert first.model in facts
        assert f"{len(first.heads())} heads in 3 layers" in facts
        assert "recomputed head outputs within" in facts
        assert page.locator(".hw-note").is_hidden()
        page.get_by_label("Text and model").select_option("1")
        drawn(page)
        assert page.locator(".hw-note").text_content() == "0.1 set to zero"
        assert page.locator("[data-head]").count() == 8


def test_a_long_text_from_right_to_left_and_markup_is_text(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    tmp_path: Path,
) -> None:
    text = "مرحبا <img src=x onerror=alert(1)> " * 20
    path = with_index(page_file(tiny_records["decoder"]), {"text": text}, tmp_path / "long.html")
    with open_page(browser, path) as page:
        page.wait_for_selector("[data-head]")
        heading = page.get_by_role("heading", level=1)
        shown = heading.text_content() or ""
        assert shown.endswith("…")
        assert len(shown) <= 160
        assert text.startswith(shown[:-1])
        assert heading.evaluate("(one) => getComputedStyle(one).direction") == "rtl"
        assert not page.locator("img").count()
        assert page.evaluate(WIDE) <= 0


def test_an_address_opens_the_view_it_names(browser: Browser, path: Path) -> None:
    place = "scene=1&head=1.2&unit=words&first=hidden&colour=entropy&scope=layer&query=3"
    with open_page(browser, path, place) as page:
        assert head_of(page) == "1.2"
        assert page.locator('[data-choice="unit"] :checked').get_attribute("value") == "words"
        assert page.locator('[data-choice="scope"] :checked').get_attribute("value") == "layer"
        for name, value in (("first", "hidden"), ("colour", "entropy")):
            assert page.locator(f'select[data-choice="{name}"]').input_value() == value
        page.keyboard.press("ArrowLeft")
        until_asked(page, "head", "1.1")
        assert asked(page) | {"head": "1.2"} == dict(pair.split("=") for pair in place.split("&"))


def test_what_is_not_there_gives_way_and_says_so(browser: Browser, path: Path) -> None:
    wrong = "head=99.9&scene=7&tab=nowhere&unit=bytes&first=%3Cb%3E&colour=no&query=999&key=-1&zoom=5,2,a,9"
    wrong += "&withScene=9&withHead=7.7&layer=500&kind=none&__proto__=1"
    with open_page(browser, path, wrong) as page:
        assert head_of(page) == "0.0"
        said = notice(page)
        assert said.endswith("There is no head 99.9 here; 0.0 is shown.")
        assert "There is no text 7 here" in said
        assert 'unit can be tokens, words, and not "bytes"' in said
        page.keyboard.press("Escape")
        assert notice(page) == ""
        page.wait_for_function("() => !/nowhere|bytes|999|99.9/.test(location.hash)", timeout=30000)


def test_a_head_that_another_text_has_not_gives_way(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    path = page_file(tiny_records["decoder"], tiny_records["encoder"])
    with open_page(browser, path, "head=2.3&query=12") as page:
        page.wait_for_selector("[data-head]")
        page.keyboard.press("]")
        assert head_of(page) == "0.0"
        assert "no head 2.3" in notice(page)


def test_back_leads_through_scenes_not_through_moves(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=0.1") as page:
        page.wait_for_selector("[data-head]")
        before = page.evaluate("history.length")
        for layer in (1, 2):
            page.keyboard.press("ArrowDown")
            page.locator(f'[data-head="{layer}.1"][aria-current="true"]').wait_for()
        until_asked(page, "head", "2.1")
        assert page.evaluate("history.length") == before
        page.get_by_label("Text and model").select_option("1")
        until_asked(page, "scene", "1")
        assert page.evaluate("history.length") == before + 1
        page.evaluate("history.back()")
        page.wait_for_function("() => !location.hash.includes('scene')", timeout=30000)
        drawn(page)
        assert page.locator("[data-head]").count() == 12
        page.evaluate("history.forward()")
        until_asked(page, "scene", "1")
        drawn(page)
        assert page.locator("[data-head]").count() == 8


def test_the_link_is_copied_whole(browser: Browser, path: Path) -> None:
    given = {"permissions": ["clipboard-read", "clipboard-write"]}
    with open_page(browser, path, "head=1.1", **given) as page:
        page.wait_for_selector("[data-head]")
        page.keyboard.press("w")
        page.locator(".hw-copy-link").click()
        page.wait_for_function(
            "() => document.querySelector('.hw-copy-link').textContent !== 'Copy link'"
        )
        page.locator(".hw-search-field").focus()
        page.keyboard.press("Control+v")
        assert page.locator(".hw-search-field").input_value().endswith("#head=1.1&unit=words")


def test_the_theme_is_chosen_and_kept(browser: Browser, path: Path) -> None:
    with open_page(browser, path, color_scheme="dark") as page:
        page.wait_for_selector("[data-head]")
        assert page.evaluate(PAPER) == "rgb(20, 23, 27)"
        cell = page.locator('[data-head="0.0"]')
        dark = cell.evaluate("(one) => getComputedStyle(one).backgroundColor")
        page.get_by_label("Theme").select_option("light")
        assert page.evaluate(PAPER) == "rgb(255, 255, 255)"
        assert cell.evaluate("(one) => getComputedStyle(one).backgroundColor") != dark
        page.reload()
        page.wait_for_selector("[data-head]")
        assert page.evaluate(PAPER) == "rgb(255, 255, 255)"
        page.get_by_label("Theme").select_option("auto")
        assert page.evaluate(PAPER) == "rgb(20, 23, 27)"
        page.emulate_media(color_scheme="light")
        assert page.evaluate(PAPER) == "rgb(255, 255, 255)"


def test_a_page_of_few_colours_keeps_those_of_the_data(
    browser: Browser, path: Path, shot: Callable[..., Path]
) -> None:
    with open_page(browser, path, "head=0.1", forced_colors="active") as page:
        page.wait_for_selector("[data-head]")
        shot(page, "forced")
        here = page.locator('[aria-selected="true"][data-head]')
        assert here.evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"
        assert page.evaluate(TINTS) > 1


def test_on_paper_there_is_one_page_light_and_without_controls(
    browser: Browser, path: Path, shot: Callable[..., Path]
) -> None:
    with open_page(browser, path, "head=1.1", color_scheme="dark") as page:
        page.wait_for_selector("[data-head]")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        drawn(page)
        shot(page, "print")
        assert page.evaluate(PAPER) in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
        for gone in (".hw-controls", ".hw-search", ".hw-tabs", ".hw-scenes"):
            assert page.locator(gone).is_hidden()
        assert page.locator('.hw-paper [data-figure="grid"]').is_visible()
        assert "head 1.1" in page.locator(".hw-paper-facts").inner_text()
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="null")
        assert page.evaluate(PAPER) == "rgb(20, 23, 27)"
        assert page.locator(".hw-paper").is_hidden()
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) == 1


def test_who_listens_hears_of_the_head_once_it_rests(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=0.0") as page:
        page.wait_for_selector("[data-head]")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "() => /^Head 0\\.3, \\w/.test(document.querySelector('.hw-said').textContent)",
            timeout=30000,
        )


def test_cells_that_cannot_be_read_are_one_line_and_the_rest_goes_on(
    browser: Browser, path: Path
) -> None:
    text = path.read_text("utf-8")
    damaged = re.sub(r'(data-chunk="0/1\.1">)[^<]{20}', r"\1AAAAAAAAAAAAAAAAAAAA", text)
    assert damaged != text
    path.write_text(damaged, encoding="utf-8")
    with open_page(browser, path, "head=1.1") as page:
        page.wait_for_function(
            "() => document.querySelector('.hw-notice:not([hidden])')", timeout=30000
        )
        assert "the cells of 1.1 cannot be read; the file may be damaged" in notice(page)
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "1.2"
        page.wait_for_function("() => document.querySelector('.hw-notice').hidden", timeout=30000)


@pytest.mark.parametrize("cut", ["index", "empty"])
def test_a_damaged_index_is_said_not_a_blank_page(browser: Browser, path: Path, cut: str) -> None:
    text = path.read_text("utf-8")
    there = re.search(r'id="index">(.*?)</script>', text, re.DOTALL)
    assert there is not None
    body = (
        there[1][: len(there[1]) // 2]
        if cut == "index"
        else '{"scenes": [], "start": {}, "live": null}'
    )
    path.write_text(text[: there.start(1)] + body + text[there.end(1) :], encoding="utf-8")
    with open_page(browser, path, expect=["exception", "console error"]) as page:
        page.wait_for_selector("[role=alert]")
        assert "This page's data cannot be read" in (page.locator("body").text_content() or "")


def test_a_narrow_place_in_a_wide_window_has_the_narrow_layout(
    browser: Browser, tiny_records: dict[str, Record], tmp_path: Path, shot: Callable[..., Path]
) -> None:
    page_of_two = two_viewers(Scene(tiny_records["decoder"]), tmp_path / "two.html")
    with open_page(browser, page_of_two, viewport={"width": 1600, "height": 900}) as page:
        page.wait_for_function("() => window.a && window.b")
        shot(page, "notebook")
        left, stage = page.evaluate(BOX, "#a .hw-left"), page.evaluate(BOX, "#a .hw-stage")
        assert left[3] <= stage[1]
        assert stage[2] <= 500


def test_without_a_script_there_is_a_line(browser: Browser, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    said = page.locator("noscript").inner_text()
    context.close()
    assert "script" in said
