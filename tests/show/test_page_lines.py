"""Lines between tokens in a browser: of one head or several, of a token alone, of a part of a long text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headwise as hw
from browser_help import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Files = Callable[..., Path]
Records = dict[str, Any]

STEP, HEAD = 19, 18  # of the lines, in units of the page

# how many dots of the space between the columns are not paper
INKED = """() => {
  const canvas = document.querySelector(".hw-lines canvas"), { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height), dots = new Uint32Array(data.buffer);
  const middle = Math.round(width * 0.25), paper = dots[0];
  let found = 0;
  for (let y = 20; y < height; y++) if (dots[y * width + middle] !== paper) found++;
  return found;
}"""
READS = ["willReadFrequently"]  # a hint to those who read a canvas often, as only tests do
COLOURS = """() => {
  const canvas = document.querySelector(".hw-lines canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def ready(page: Page) -> None:
    page.wait_for_selector(".hw-lines canvas[data-shows]")


def point(page: Page, row: int, across: float) -> str:
    """Point at a row of the left (across 0) or right column; what the picture then says."""
    box = page.locator(".hw-lines canvas").bounding_box()
    assert box is not None
    x = box["x"] + (20 if across == 0 else across)
    page.mouse.move(x, box["y"] + HEAD + (row + 0.5) * STEP)
    page.wait_for_timeout(120)
    return page.locator(".hw-lines canvas").get_attribute("aria-label") or ""


def told(labels: list[str], weights: np.ndarray) -> str:
    """The strongest of some weights as the page says them."""
    (at, *_) = (-weights).argsort(kind="stable")
    weight = weights[at]
    return f"{labels[at]} {weight:.{3 if weight < 0.1 else 2}f}".replace(" 0.", " .")


def test_a_token_shows_its_lines_alone_in_both_directions(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["encoder"]
    weights, labels = record.weights("1.2"), [t.label for t in record.sides[0].tokens]
    with open_page(browser, page_file(record), "head=1.2&tab=lines", READS) as page:
        ready(page)
        assert page.evaluate(INKED) > 0
        all_of_them = page.evaluate(INKED)
        said = point(page, 5, 0)
        assert f"{labels[5]} looks most at {told(labels, weights[5])}" in said
        assert 0 < page.evaluate(INKED) < all_of_them
        shot(page, "one")
        width = (page.locator(".hw-lines canvas").bounding_box() or {"width": 0})["width"]
        said = point(page, 7, min(width - 10, 560))
        assert f"{labels[7]} is looked at most by {told(labels, weights[:, 7])}" in said


def test_the_heads_of_a_layer_each_have_their_colour(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["decoder"]
    with open_page(browser, page_file(record), "head=1.2&tab=lines&scope=layer", READS) as page:
        ready(page)
        shows = "document.querySelector('.hw-lines canvas').dataset.shows"
        assert page.evaluate(shows) == "1.0 1.1 1.2 1.3"
        inked = page.evaluate(INKED)
        shot(page, "layer")
        buttons = page.locator(".hw-lines-heads button")
        for at in range(4):
            buttons.nth(at).click()
        page.wait_for_timeout(100)
        assert page.evaluate(INKED) == 0 < inked
        buttons.nth(1).click()
        assert page.evaluate(INKED) > 0
        page.get_by_role("button", name="each head in its colour").click()
        page.wait_for_function(f"{shows} === 'mean/1'")
        mean = np.mean([record.weights(f"1.{h}") for h in range(4)], axis=0)
        labels = [t.label for t in record.sides[0].tokens]
        assert told(labels, mean[6]) in point(page, 6, 0)


def test_a_long_text_scrolls_and_what_leaves_the_view_is_drawn(
    browser: Browser, page_file: Files, shot: Callable[..., Path]
) -> None:
    import tiny_help

    record = hw.look(tiny_help.decoder(), " ".join(["the animal was too tired"] * 24))
    weights, labels = record.weights("1.2"), [t.label for t in record.sides[0].tokens]
    count = len(labels)
    assert count > 90
    with open_page(browser, page_file(record), "head=1.2&tab=lines") as page:
        ready(page)
        scroller = page.locator(".hw-lines-scroll")
        scroller.evaluate(f"(one) => (one.scrollTop = {40 * STEP})")
        page.wait_for_timeout(150)
        said = point(page, 4, 0)
        assert f"{labels[44]} looks most at {told(labels, weights[44])}" in said
        shot(page, "long")
        above = weights[44][:40].sum()
        assert above > 0.05
        found = page.evaluate("document.querySelector('.hw-lines canvas').dataset.outside")
        assert abs(float(found.split(",")[0]) - above) < 0.02
        assert float(found.split(",")[1]) == 0
    with open_page(browser, page_file(record), f"head=1.2&tab=lines&query={count - 3}") as page:
        ready(page)
        page.wait_for_function("document.querySelector('.hw-lines-scroll').scrollTop > 500")


def test_light_and_dark_are_both_drawn(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    for scheme in ("light", "dark"):
        with open_page(
            browser, page_file(tiny_records["mixed"]), "tab=lines&unit=words", color_scheme=scheme
        ) as page:
            ready(page)
            assert page.evaluate(COLOURS) > 8
            shot(page, scheme)
