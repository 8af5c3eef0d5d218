"""A link to a served page: it brings back the text it was of, or says that it was let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from server_help import Process

from browser_help import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TYPED = '.hw-live [aria-label="Text to look at"]'
SENT, OTHER = "it sat at it, sent", "another text"
LET_GO = "This view has been let go; look again."


def look(page: Page, text: str) -> None:
    page.wait_for_selector(".hw-tabs button:visible")
    page.fill(TYPED, text)
    page.press(TYPED, "Enter")
    shows(page, text)


def shows(page: Page, text: str) -> None:
    page.wait_for_function(
        "(text) => document.querySelector('.hw-text')?.textContent === text", arg=text
    )


def hash_of(page: Page, wanted: str) -> str:
    """The part of the address after #, once it holds this."""
    page.wait_for_function("(wanted) => location.hash.includes(wanted)", arg=wanted)
    return str(page.evaluate("() => location.hash.slice(1)"))


@pytest.fixture(scope="module")
def link(browser: Browser, server: Process) -> str:
    """What stands after # of a view of SENT at a head."""
    with open_page(browser, server.address) as page:
        look(page, SENT)
        page.locator('[data-head="1.3"]').first.click()
        return hash_of(page, "head=1.3")


def test_a_link_brings_its_text_back_in_another_browser(
    browser: Browser, server: Process, link: str
) -> None:
    with open_page(browser, server.address, link) as page:
        shows(page, SENT)
        page.locator('[data-head="1.3"][aria-current="true"]').first.wait_for()
        assert page.locator(".hw-scenes option").count() == 1
        assert page.title() == f"{SENT} - small - headwise"
        assert page.locator(".hw-notice:visible").count() == 0


def test_a_link_followed_in_an_open_page_brings_its_text(
    browser: Browser, server: Process, link: str
) -> None:
    with open_page(browser, server.address) as page:
        look(page, OTHER)
        assert page.title() == f"{OTHER} - small - headwise"
        page.evaluate("(link) => { location.hash = link; }", link)
        shows(page, SENT)
        page.go_back()
        shows(page, OTHER)
        page.evaluate("() => { location.hash = 'scene=' + 'x'.repeat(22); }")
        page.get_by_text(LET_GO).wait_for()
        assert page.locator(".hw-text").inner_text() == OTHER


def test_what_is_gone_is_said_and_no_other_text_is_shown(browser: Browser, server: Process) -> None:
    with open_page(browser, server.address, f"scene={'x' * 22}&head=1.2") as page:
        page.get_by_text(LET_GO).wait_for()
        page.wait_for_timeout(400)  # nothing is looked at by itself
        assert page.locator(".hw-body:visible").count() == 0
        page.press(TYPED, "Enter")
        page.wait_for_selector(".hw-tabs button:visible")


def test_what_was_let_go_meanwhile_is_forgotten_without_a_word(
    browser: Browser, server: Process
) -> None:
    with open_page(browser, server.address) as page:  # an error in the console fails it
        look(page, SENT)
        page.evaluate(
            """() => sessionStorage.setItem("headwise-scenes", JSON.stringify(
              [...JSON.parse(sessionStorage.getItem("headwise-scenes")), "y".repeat(22)]))"""
        )
        page.reload()
        shows(page, SENT)
        assert page.locator(".hw-notice:visible").count() == 0
        held = page.evaluate("() => JSON.parse(sessionStorage.getItem('headwise-scenes'))")
        assert "y" * 22 not in held
