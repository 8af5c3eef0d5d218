"""What is printed: one light page with the figures of the tab, as wide as it, and the facts of all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TABS = {
    "map": ["map", "grid"],
    "lines": ["lines", "grid"],
    "compare": ["compare", "grid"],
    "masks": ["reach", "paths", "grid"],
    "neurons": ["adds", "heat", "neurons", "grid"],
}
SHEET = 694
"""Units of the page that a sheet is wide."""


def printed(page: Page) -> None:
    page.emulate_media(media="print")
    page.wait_for_selector(".hw-on-paper .hw-paper canvas")


@pytest.fixture
def path(page_file: Callable[..., Path], tiny_scenes: dict[str, Scene]) -> Path:
    return page_file(tiny_scenes["decoder"])


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("tab", list(TABS))
def test_a_tab_is_one_page_of_its_figures(
    browser: Browser, path: Path, shot: Callable[..., Path], tab: str, pinned: bool
) -> None:
    place = f"tab={tab}&head=1.2&withHead=2.1{'&query=4&key=1' if pinned else ''}"
    with open_page(browser, path, place, color_scheme="dark") as page:
        page.wait_for_selector(f'[data-tab="{tab}"][aria-selected="true"]')
        page.locator(".hw-stage canvas:visible").first.wait_for()
        page.wait_for_timeout(200)
        pdf = page.pdf(format="A4")
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
        printed(page)
        shot(page, tab)
        figures = page.locator(".hw-paper canvas")
        names = figures.evaluate_all("(all) => all.map((one) => one.dataset.figure)")
        assert names == TABS[tab]
        rows = page.locator(".hw-paper-row").evaluate_all(
            "(all) => all.map((row) => [...row.children].reduce((sum, one) => sum + one.offsetWidth, 0))"
        )
        if tab != "masks":
            assert max(rows) > 0.85 * SHEET
        assert max(rows) <= SHEET + 2
        dots, units = figures.first.evaluate("(one) => [one.width, one.offsetWidth]")
        assert dots / units * 96 >= 300
        assert (
            page.locator(".hw-strips, .hw-stage, .hw-map-plot > div")
            .locator("visible=true")
            .count()
            == 0
        )
        facts = page.locator(".hw-paper-facts").inner_text()
        assert "LlamaForCausalLM" in facts
        if tab == "compare":
            assert "A: LlamaForCausalLM, head 1.2" in facts
            assert "B: LlamaForCausalLM, head 2.1" in facts


def test_paper_is_light_whatever_the_screen_has(browser: Browser, path: Path) -> None:
    colours = "(one) => [getComputedStyle(one).color, getComputedStyle(one).getPropertyValue('--paper').trim()]"
    for theme in ("auto", "dark"):
        with open_page(browser, path, "head=1.2", color_scheme="dark") as page:
            page.wait_for_selector(".hw-map-plot canvas")
            if theme == "dark":
                page.get_by_label("Theme").select_option("dark")
            before = page.locator(".headwise").evaluate(colours)
            printed(page)
            assert page.locator(".hw-paper h1").evaluate(colours) == ["rgb(27, 31, 36)", "#ffffff"]
            corner = page.locator(".hw-paper canvas").first.evaluate(
                "(one) => [...one.getContext('2d').getImageData(2, one.height - 3, 1, 1).data]"
            )
            assert corner[3] == 0 or min(corner[:3]) > 200
            page.emulate_media(media="screen")
            page.wait_for_selector(".hw-paper", state="hidden")
            assert page.locator(".headwise").evaluate(colours) == before
            assert page.locator(".hw-paper > *").count() == 0


def test_facts_of_several_figures_stand_once(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.2&tab=masks") as page:
        page.wait_for_selector("canvas[data-map]")
        printed(page)
        assert page.locator(".hw-paper-facts").inner_text().count("Text: The animal") == 1
