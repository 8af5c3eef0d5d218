"""A page in one file opens in a real browser without a network, draws, and says when something is damaged."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headwise as hw
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


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "text", "heads"),
    [
        ("smollm2", "The animal didn't cross the street because it was too tired", 270),
        ("e5-small", "小明把书还给了图书馆,因为它到期了。😀 مرحبا", 144),
    ],
)
def test_a_real_model_is_shown_whole(
    browser: Browser,
    page_file: Callable[..., Path],
    shot: Callable[..., Path],
    name: str,
    text: str,
    heads: int,
) -> None:
    path = page_file(hw.look(hw.load(name), text), start={"head": "5.3"})
    with open_page(browser, path) as page:
        drawn(page)
        assert page.locator("[data-head]").count() == heads
        page.keyboard.press("ArrowRight")
        page.locator('[data-head="5.4"][aria-current="true"]').wait_for()
        shot(page, name)


@pytest.mark.parametrize("how", ["cut off", "no base64", "gone"])
def test_damaged_cells_are_told_and_the_rest_is_shown(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    shot: Callable[..., Path],
    how: str,
) -> None:
    path = page_file(tiny_records["decoder"])
    path.write_text(_damaged(path.read_text("utf-8"), "0/1.2", how), "utf-8")
    with open_page(browser, path, "head=1.2") as page:
        page.get_by_role("alert").filter(has_text="1.2").wait_for()
        shot(page, how.replace(" ", "-"))
        page.locator('[data-head="1.1"]').first.click()
        drawn(page)


def _damaged(text: str, chunk: str, how: str) -> str:
    found = re.search(rf'<script [^>]*data-chunk="{chunk}">([^<]*)</script>\n', text)
    assert found is not None
    data = base64.b64decode(found[1])
    new = {
        "cut off": found[0].replace(found[1], base64.b64encode(data[: len(data) // 2]).decode()),
        "no base64": found[0].replace(found[1], "&" + found[1][1:]),
        "gone": "",
    }[how]
    return text.replace(found[0], new)


def test_what_a_page_does_wrong_fails_its_test(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "wrong.html"
    head = '<!doctype html><title>wrong</title><link rel="icon" href="data:,">'
    for script, said in (
        ("console.error('one')", "console error: one"),
        ("setTimeout(() => { throw Error('two') })", "exception: two"),
        (
            "fetch('https://example.org/three').catch(() => 0)",
            "request to https://example.org/three",
        ),
        (
            "new Image().src = 'http://example.org/four.png'",
            "request to http://example.org/four.png",
        ),
    ):
        path.write_text(f"{head}<script>{script}</script>", "utf-8")
        with pytest.raises(AssertionError, match=re.escape(said)), open_page(browser, path):
            pass
