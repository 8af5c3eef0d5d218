"""Menus, lists and the search give the focus back, and what is asked for and is not there gives way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_help import asked, drawn, head_of, two_viewers, until_asked

from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

HAS = "(name) => document.activeElement.matches(name)"
WRONG = (
    {"head": None},
    {"scene": "length"},
    {"zoom": 5},
    {"query": "2", "pinned": True},
    {"unit": 3},
    {"withHead": {}},
    {"constructor": 1},
)


@pytest.fixture
def path(page_file: Callable[..., Path], tiny_records: dict[str, Record]) -> Path:
    return page_file(tiny_records["decoder"], tiny_records["encoder"], start={"head": "1.2"})


def has_focus(page: Page, name: str) -> bool:
    drawn(page)
    return bool(page.evaluate(HAS, name))


def test_a_list_takes_the_keys_it_needs_and_no_others(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.locator('[data-choice="colour"]').focus()
        page.keyboard.press("ArrowDown")
        assert head_of(page) == "1.1"
        page.keyboard.press("2")
        until_asked(page, "tab", "lines")
        page.keyboard.press("m")
        until_asked(page, "head", "mean/1")
        page.keyboard.press("/")
        assert has_focus(page, ".hw-search-field")
        page.keyboard.press("Escape")
        assert has_focus(page, '[data-choice="colour"]')
        page.keyboard.press("Escape")
        assert has_focus(page, ".hw-frame")
        page.keyboard.press("m")
        assert head_of(page) == "1.1"


def test_after_a_choice_by_pointer_the_viewer_hears_arrows(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        first = page.locator('[data-choice="first"]')
        first.focus()
        first.dispatch_event("pointerdown")
        first.select_option("hidden")
        until_asked(page, "first", "hidden")
        assert has_focus(page, ".hw-frame")
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "1.2"


def test_the_menu_of_pictures_opens_by_its_key_and_gives_the_focus_back(
    browser: Browser, path: Path
) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.locator('[data-head="1.1"]').focus()
        page.keyboard.press("e")
        assert has_focus(page, ".hw-export button")
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "1.2"
        for key in ("Escape", "e"):
            page.keyboard.press(key)
            page.wait_for_function(HAS, arg='[data-head="1.2"], [data-head="1.1"]')
            assert page.locator(".hw-export").get_attribute("open") is None
            page.keyboard.press("e")
            assert has_focus(page, ".hw-export button")


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_search_gives_the_focus_back_to_the_grid(browser: Browser, path: Path, key: str) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.locator('[data-head="1.1"]').focus()
        page.keyboard.press("/")
        page.keyboard.type("2.3")
        page.keyboard.press(key)
        head = "2.3" if key == "Enter" else "1.1"
        assert has_focus(page, f'[data-head="{head}"]')


def test_enter_on_the_map_pins_and_lets_go(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.locator('[data-head="1.1"]').focus()
        page.keyboard.press("Enter")
        assert has_focus(page, ".hw-map canvas")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash.includes('key=')")
        before = asked(page)
        page.keyboard.press(">" if before["key"] == "0" else "<")
        page.wait_for_function(
            "(hash) => location.hash !== hash", arg=page.evaluate("location.hash")
        )
        assert asked(page)["query"] == before["query"]
        assert abs(int(asked(page)["key"]) - int(before["key"])) == 1
        page.keyboard.press(" ")
        page.wait_for_function("() => !location.hash.includes('key=')")


def test_a_box_zooms_and_what_is_only_pointed_at_is_not_in_the_address(
    browser: Browser, path: Path
) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.wait_for_selector('.hw-map canvas[data-shows="1.1"]')
        box = page.locator(".hw-map canvas").first.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 90, y + 90, steps=4)
        page.mouse.up()
        page.wait_for_function("() => location.hash.includes('zoom=')")
        assert {"query", "key"}.isdisjoint(asked(page))
        assert page.locator(".hw-token[aria-pressed=true]").count() == 0


@pytest.mark.parametrize(
    "head", ["constructor", "__proto__", "toString", "mean/constructor", "9.9"]
)
def test_a_head_that_is_not_there_gives_the_one_the_page_opens_with(
    browser: Browser, path: Path, head: str
) -> None:
    with open_page(browser, path, f"head={head}") as page:
        assert head_of(page) == "1.2"
        assert page.locator(".hw-notice span").inner_text() == (
            f"There is no head {head} here; 1.2 is shown."
        )
        page.wait_for_function("() => location.hash === ''")


def test_an_address_of_choices_that_are_none_says_so(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "scene=7&scope=everything") as page:
        said = page.locator(".hw-notice span").inner_text()
        assert "no text 7" in said
        assert 'scope can be head, layer, all, and not "everything"' in said


def test_values_of_the_wrong_kind_are_not_taken(
    browser: Browser, tiny_records: dict[str, Record], tmp_path: Path
) -> None:
    here = two_viewers(Scene(tiny_records["decoder"]), tmp_path / "two.html")
    with open_page(browser, here) as page:
        page.wait_for_function("() => window.a && window.b")
        before = page.evaluate("() => a.store.get()")
        for wrong in WRONG:
            page.evaluate("(wrong) => a.store.set(wrong)", wrong)
            drawn(page)
            after = page.evaluate("() => a.store.get()")
            assert after == before, wrong
            said = page.locator("#a .hw-notice span").inner_text()
            assert (next(iter(wrong)) in said) is (wrong != WRONG[-1]), wrong
        page.evaluate("() => a.store.set({ head: '2.1', zoom: [1] })")
        assert page.evaluate("() => [a.store.get().head, a.store.get().zoom]") == ["2.1", None]
