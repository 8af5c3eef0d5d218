"""A page in one file opens in a real browser without a network, draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser_help import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

INK = """() => [...document.querySelectorAll(".hw-stage > :not([hidden]) canvas")].some((one) => {
  if (!one.width || !one.height) return false;
  const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
  return new Set(new Uint32Array(data.buffer)).size > 4;
})"""


def drawn(page: Page) -> None:
    """Wait until a canvas that is shown has a picture on it."""
    page.wait_for_function(INK, timeout=15000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["decoder", "encoder", "encoder-decoder", "mixed"])
def test_a_page_opens_without_a_network(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    shot: Callable[..., Path],
    name: str,
    scheme: str,
) -> None:
    record = tiny_records[name]
    with open_page(browser, page_file(record), color_scheme=scheme) as page:
        drawn(page)
        shot(page, f"{name}-{scheme}")
        heads = page.locator("[data-head]")
        assert heads.count() >= len(record.heads())


def test_a_page_of_two_texts_shows_each(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    path = page_file(tiny_records["decoder"], tiny_records["encoder"])
    for scene, heads in ((0, 12), (1, 8)):
        with open_page(browser, path, f"scene={scene}&head=1.2") as page:
            drawn(page)
            assert page.locator("[data-head]").count() == heads
            assert (
                page.locator('[data-head][aria-current="true"]').get_attribute("data-head") == "1.2"
            )
