"""axe-core finds nothing serious in any tab of the page, light or dark, by tokens or words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser_help import axe, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from headwise.see.record import Record
    from headwise.show.page.scene import Scene

PLACES = [
    ("decoder", "light", "tokens"),
    ("decoder", "dark", "words"),
    ("encoder", "light", "words"),
    ("encoder-decoder", "light", "tokens"),
    ("encoder-decoder", "dark", "words"),
    ("mixed", "light", "tokens"),
]


@pytest.mark.parametrize(("name", "scheme", "unit"), PLACES)
def test_nothing_serious_in_any_tab(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_scenes: dict[str, Scene],
    shot: Callable[..., Path],
    name: str,
    scheme: str,
    unit: str,
) -> None:
    path = page_file(tiny_scenes[name])
    with open_page(browser, path, f"unit={unit}&query=2", color_scheme=scheme) as page:
        page.wait_for_selector("[data-head]")
        tabs = page.get_by_role("tab")
        for at in range(max(1, tabs.count())):
            if tabs.count():
                tabs.nth(at).click()
            page.wait_for_timeout(150)
            shot(page, f"{name}-{scheme}-{at}", full_page=True)
            found = axe(page)
            assert not found, "\n".join(found)


def test_a_picture_without_a_name_is_found(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["encoder"])) as page:
        page.wait_for_selector("[data-head]")
        page.evaluate("document.body.append(document.createElement('button'))")
        assert any("button-name" in line for line in axe(page))
