"""The keyboard of the page: heads, views, words, search and help, and whom a key is meant for."""

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

FIELD = ".hw-search-field"


@pytest.fixture
def path(page_file: Callable[..., Path], tiny_records: dict[str, Record]) -> Path:
    return page_file(tiny_records["decoder"], tiny_records["encoder"])


def found(page: Page, text: str) -> list[str]:
    page.keyboard.press("/")
    page.locator(FIELD).fill(text)
    return page.locator(".hw-found li").all_text_contents()


def test_arrows_go_over_heads_from_anywhere_but_fields(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        assert head_of(page) == "1.1"
        for key, head in (("Right", "1.2"), ("Down", "2.2"), ("Left", "2.1"), ("Up", "1.1")):
            page.keyboard.press(f"Arrow{key}")
            assert head_of(page) == head
        page.locator(FIELD).focus()
        page.keyboard.press("ArrowRight")
        page.locator('[data-choice="unit"] input').first.focus()
        page.keyboard.press("ArrowRight")
        page.get_by_role("tab").first.focus()
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "1.1"
        page.keyboard.press("Control+ArrowRight")
        assert head_of(page) == "1.1"
        page.locator(".hw-help-open").focus()
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "1.2"


def test_the_edge_of_the_grid_holds(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=0.0") as page:
        for key in ("ArrowUp", "ArrowLeft"):
            page.keyboard.press(key)
            assert head_of(page) == "0.0"


def test_every_key_of_the_state(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.wait_for_selector("[data-head]")
        for key, name, value in (
            ("w", "unit", "words"),
            ("]", "scene", "1"),
            ("[", "scene", None),
            (".", "query", "0"),
            (".", "query", "1"),
            (",", "query", "0"),
            ("m", "head", "mean/1"),
            ("m", "head", "1.1"),
            ("Escape", "query", None),
        ):
            page.keyboard.press(key)
            if value is not None:
                until_asked(page, name, value)
            else:
                page.wait_for_function(
                    "(name) => !new URLSearchParams(location.hash.slice(1)).has(name)",
                    arg=name,
                    timeout=30000,
                )


def test_by_words_a_step_pins_the_first_token_of_the_next_word(
    browser: Browser, path: Path, tiny_records: dict[str, Record]
) -> None:
    words = tiny_records["decoder"].sides[0].words
    at = next(i for i, word in enumerate(words) if word.last - word.first > 1)
    with open_page(browser, path, f"unit=words&query={words[at].last - 1}") as page:
        page.wait_for_selector("[data-head]")
        page.keyboard.press(".")
        until_asked(page, "query", str(words[at + 1].first))
        page.keyboard.press(",")
        until_asked(page, "query", str(words[at].first))


def test_digits_open_the_views(browser: Browser, path: Path) -> None:
    with open_page(browser, path) as page:
        page.wait_for_selector("[data-head]")
        tabs = page.get_by_role("tab")
        for at in range(tabs.count()):
            page.keyboard.press(str(at + 1))
            drawn(page)
            assert tabs.nth(at).get_attribute("aria-selected") == "true"
            assert page.locator("[role=tabpanel]:visible").count() == 1
        page.keyboard.press("9")
        assert page.locator("[role=tabpanel]:visible").count() == 1


def test_search_finds_a_head_by_its_id(browser: Browser, path: Path) -> None:
    with open_page(browser, path) as page:
        page.wait_for_selector("[data-head]")
        assert found(page, "2.3")[0].startswith("2.3 head")
        assert len(found(page, "1.")) == 4
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        option = page.locator('.hw-found [aria-selected="true"]')
        assert option.get_attribute("id") == page.locator(FIELD).get_attribute(
            "aria-activedescendant"
        )
        page.keyboard.press("Enter")
        assert head_of(page) == "1.1"
        assert page.locator(FIELD).input_value() == ""
        assert page.locator(".hw-found").is_hidden()


def test_search_pins_a_word_of_the_text(
    browser: Browser, path: Path, tiny_records: dict[str, Record]
) -> None:
    words = tiny_records["decoder"].sides[0].words
    at = next(i for i, word in enumerate(words) if "street" in word.text)
    with open_page(browser, path) as page:
        page.wait_for_selector("[data-head]")
        assert any("street" in one and f"word {at}" in one for one in found(page, "STREET"))
        page.keyboard.press("Enter")
        until_asked(page, "query", str(words[at].first))


def test_search_lets_a_kind_stand_out_and_colours_by_a_number(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "colour=entropy") as page:
        page.wait_for_selector("[data-head]")
        kind = found(page, "other")
        assert "head" in kind[0]
        page.keyboard.press("Enter")
        until_asked(page, "kind", "other")
        drawn(page)
        assert page.locator(".hw-kinds [aria-pressed=true]").get_attribute("data-kind") == "other"
        assert any("colour of the grid" in one for one in found(page, "entropy"))
        page.locator(".hw-found li", has_text="colour of the grid").click()
        until_asked(page, "colour", "entropy")


def test_search_says_when_it_finds_nothing_and_lets_go(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.wait_for_selector("[data-head]")
        assert found(page, "<b>nowhere</b>") == ["Nothing here has this in its name."]
        page.keyboard.press("Escape")
        assert page.locator(".hw-found").is_hidden()
        assert not page.evaluate("document.activeElement.matches('.hw-search-field')")
        assert head_of(page) == "1.1"


def test_help_lists_the_keys_and_takes_no_others(browser: Browser, path: Path) -> None:
    with open_page(browser, path, "head=1.1") as page:
        page.wait_for_selector("[data-head]")
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog")
        assert dialog.is_visible()
        keys = dialog.locator("kbd").all_text_contents()
        assert {"/", "?", "w", "c", "e", "[", "]", ",", ".", "m", "Esc", "←", "Enter"} <= set(keys)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("w")
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        assert head_of(page) == "1.1"
        assert "unit" not in asked(page)


def test_of_two_viewers_only_the_one_in_use_hears_keys(
    browser: Browser, tiny_records: dict[str, Record], tmp_path: Path
) -> None:
    page_of_two = two_viewers(Scene(tiny_records["decoder"]), tmp_path / "two.html")
    heads = "() => [a, b].map((app) => app.store.get().head)"
    with open_page(browser, page_of_two) as page:
        page.wait_for_function("() => window.a && window.b")
        page.keyboard.press("ArrowRight")
        page.locator("#own").focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate(heads) == ["0.0", "0.0"]
        page.locator('#b [data-head="1.1"]').click()
        page.keyboard.press("ArrowRight")
        assert page.evaluate(heads) == ["0.0", "1.2"]
        ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        assert page.url.endswith("two.html")
        page.evaluate("() => b.stop()")
        page.keyboard.press("ArrowRight")
        assert page.evaluate(heads) == ["0.0", "1.2"]
