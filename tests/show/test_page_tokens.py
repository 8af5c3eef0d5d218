"""The text in a browser, token by token: as it was written, with the weights of the record in colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headwise as hw
from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Files = Callable[..., Path]
Records = dict[str, Any]

# what each token of a strip is coloured with: [filled, underlined], 0 where it is not
TINTS = """(side) => [...document.querySelectorAll(`.hw-token[data-side="${side}"]`)].map(
  (one) => ["--gives", "--gets"].map((name) => Number(one.style.getPropertyValue(name) || 0)))"""


def tints(page: Page, side: int = 0) -> np.ndarray:
    page.wait_for_timeout(100)
    return np.array(page.evaluate(TINTS, side))


def coloured(weights: np.ndarray) -> np.ndarray:
    """The root of each weight, of those that are shown."""
    return np.where(weights > 0.003, np.sqrt(weights), 0)


def point(page: Page, at: int, side: int = 0) -> None:
    page.locator(f'.hw-token[data-side="{side}"][data-at="{at}"]').hover()


def test_a_token_shows_whom_it_looks_at_and_who_looks_at_it(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["encoder"]
    weights = record.weights("1.2")
    with open_page(browser, page_file(record), "head=1.2") as page:
        page.wait_for_selector(".hw-token")
        point(page, 6)
        found = tints(page)
        np.testing.assert_allclose(found[:, 0], coloured(weights[6]), atol=0.006)
        np.testing.assert_allclose(found[:, 1], coloured(weights[:, 6]), atol=0.006)
        shot(page, "tokens")


@pytest.mark.parametrize("scope", ["layer", "all"])
def test_over_a_layer_and_over_all_heads(
    browser: Browser, page_file: Files, tiny_records: Records, scope: str
) -> None:
    record = tiny_records["decoder"]
    heads = [id for id in map(str, record.heads()) if scope == "all" or id.startswith("2.")]
    mean = np.mean([record.weights(id) for id in heads], axis=0)
    with open_page(browser, page_file(record), "head=2.1") as page:
        page.wait_for_selector(".hw-token")
        page.locator(f'input[type="radio"][value="{scope}"]').check()
        point(page, 7)
        found = tints(page)
        np.testing.assert_allclose(found[:, 0], coloured(mean[7]), atol=0.006)
        np.testing.assert_allclose(found[:, 1], coloured(mean[:, 7]), atol=0.006)


@pytest.mark.parametrize("way", ["shown", "hidden", "renormalised"])
def test_sink_and_separators_stand_apart_in_numbers(
    browser: Browser, page_file: Files, tiny_records: Records, way: str
) -> None:
    record = tiny_records["encoder"]
    row = record.weights("0.3")[5]
    tokens = record.sides[0].tokens
    alone = [
        i for i, t in enumerate(tokens) if i and (t.special or not any(map(str.isalnum, t.text)))
    ]
    shares = {"first": row[0], "separator": row[alone].sum()}
    shares["others"] = 1 - sum(shares.values())
    with open_page(browser, page_file(record), f"head=0.3&first={way}&separators={way}") as page:
        page.wait_for_selector(".hw-token")
        point(page, 5)
        page.wait_for_selector(".hw-part")
        for kind, mass in shares.items():
            text = page.locator(f'.hw-part[data-part="{kind}"]').inner_text()
            number = re.search(r"(<?\d*\.\d+)\s*$", text)
            assert number is not None, text
            assert abs(float(number[1].lstrip("<")) - mass) < 0.006, (kind, text, mass)
            assert (way in text) == (way != "shown" and kind != "others")


def test_the_text_is_written_as_it_was(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["mixed"]
    side = record.sides[0]
    for unit in ("tokens", "words"):
        with open_page(browser, page_file(record), f"head=1.2&unit={unit}") as page:
            page.wait_for_selector(".hw-token")
            text = page.evaluate("document.querySelector('.hw-strip').textContent")
            assert text == side.text
            shot(page, unit)
            boxes = page.locator(".hw-token").count()
            assert boxes == len(side.tokens if unit == "tokens" else side.words)
            if unit == "tokens":
                shared = page.locator(".hw-shared").first
                assert shared.locator(".hw-byte").count() > 1
                shared.locator(".hw-byte").first.hover()
                at = int(shared.locator(".hw-byte").first.get_attribute("data-at") or -1)
                np.testing.assert_allclose(
                    tints(page)[:, 0], coloured(record.weights("1.2")[at]), atol=0.006
                )


def test_lines_and_directions_of_a_text_are_kept(browser: Browser, page_file: Files) -> None:
    import tiny_help

    text = "ספר the animal\n\nwas <b>tired</b>"
    record = hw.look(tiny_help.decoder(), text)
    with open_page(browser, page_file(record), "head=0.0") as page:
        page.wait_for_selector(".hw-token")
        strip = page.locator(".hw-strip")
        assert strip.evaluate("(one) => one.textContent") == text
        assert strip.get_attribute("dir") == "rtl"
        assert (strip.bounding_box() or {"height": 0})["height"] > 60  # three lines
        assert page.locator(".hw-strip b").count() == 0


def test_two_texts_have_a_strip_each(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["encoder-decoder"]
    weights = record.weights("cross.1.2")
    with open_page(browser, page_file(record), "head=cross.1.2") as page:
        page.wait_for_selector(".hw-token")
        names = page.locator(".hw-named h3").all_inner_texts()
        source, target = names.index("source"), names.index("target")
        point(page, 3, target)
        np.testing.assert_allclose(tints(page, source)[:, 0], coloured(weights[3]), atol=0.006)
        assert not tints(page, target).any()
        point(page, 4, source)
        np.testing.assert_allclose(tints(page, target)[:, 1], coloured(weights[:, 4]), atol=0.006)
        assert not tints(page, source).any()
        shot(page, "two")


def test_the_keyboard_walks_and_pins(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    record = tiny_records["decoder"]
    with open_page(browser, page_file(record), "head=1.2") as page:
        page.wait_for_selector(".hw-token")
        page.locator('.hw-token[tabindex="0"]').focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.at") == "3"
        assert page.locator('.hw-token[tabindex="0"]').count() == 1
        np.testing.assert_allclose(
            tints(page)[:, 0], coloured(record.weights("1.2")[3]), atol=0.006
        )
        page.keyboard.press("Enter")
        page.wait_for_selector('.hw-token[aria-pressed="true"]')
        point(page, 8)
        assert tints(page)[4:, 0].sum() == 0  # token 3 is asked still
        page.wait_for_function("location.hash.includes('query=3')")
        page.locator('.hw-token[data-at="3"]').click()
        page.wait_for_function("!document.querySelector('.hw-token[aria-pressed=\"true\"]')")


@pytest.mark.parametrize("width", [1440, 700])
def test_nothing_moves_when_a_token_is_pinned_or_freed(
    browser: Browser, page_file: Files, tiny_records: Records, width: int
) -> None:
    page_of = page_file(tiny_records["encoder"])
    with open_page(browser, page_of, "head=1.2", viewport={"width": width, "height": 900}) as page:
        page.wait_for_selector(".hw-token")
        below = "() => document.querySelector('.hw-body').getBoundingClientRect().top"
        free = page.evaluate(below)
        point(page, 6)
        page.locator(".hw-strip-line .hw-gives").wait_for()
        assert page.evaluate(below) == free
        page.locator('.hw-token[data-at="3"]').click()
        page.locator(".hw-strip-line .hw-gets").wait_for()
        assert page.evaluate(below) == free
        line = page.locator(".hw-strip-line")
        assert line.evaluate("(one) => one.scrollHeight <= one.clientHeight")


def test_positions_without_text_are_a_ruler_under_the_text_that_is_written(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    scene = Scene(tiny_records["encoder-decoder"])
    index, side = scene.index, scene.index["sides"][0]
    count = len(side["tokens"])
    index["text"] = side["text"] = ""
    side["tokens"] = [[f"{at}", 0, 0, 0] for at in range(count)]
    side["words"] = [[f"{at}", at, at + 1] for at in range(count)]
    with open_page(browser, page_file(scene), "head=cross.1.1&query=4") as page:
        boxes = page.locator(".hw-ruler .hw-position")
        assert boxes.count() == count
        tops = boxes.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
        assert max(tops) - min(tops) < 1
        assert boxes.nth(0).inner_text() == ""  # no number is in the line that breaks
        marks = boxes.evaluate_all("(all) => all.map((one) => one.dataset.mark ?? null)")
        assert [mark for mark in marks if mark] == [f"{at}" for at in range(0, count, 5)]
        assert page.locator("h1").inner_text() == index["sides"][1]["text"]
        boxes.nth(7).click()
        page.wait_for_function("() => location.hash.includes('key=7')")
