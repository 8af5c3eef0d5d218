"""The grid of heads: its cells and colours, its legend, what is missing, and moves over it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shell_help import CHOSEN, asked, drawn, head_of, until_asked, with_index

import headwise as hw
import tiny_help
from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

CELL = ".hw-grid [data-head]"
COLOURS = f"""() => Object.fromEntries([...document.querySelectorAll('{CELL}')].map((cell) =>
  [cell.dataset.head, getComputedStyle(cell).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)]))"""
LEFTS = """(layer) => [...document.querySelectorAll(`[data-head^="${layer}."]`)]
  .map((cell) => cell.getBoundingClientRect().left)"""


def colouring(record: Record, name: str) -> dict[str, Any]:
    return next(one for one in Scene(record).index["colourings"] if one["name"] == name)


def light(colour: list[int]) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def test_kinds_have_their_colour_paler_for_less(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    does = colouring(record, "does")
    with open_page(browser, page_file(record)) as page:
        drawn(page)
        shown = page.evaluate(COLOURS)
    assert set(shown) == set(map(str, record.heads()))
    for head, (kind, mass) in does["values"].items():
        text = does["kinds"][kind]["colour"]
        full = [int(text[at : at + 2], 16) for at in (1, 3, 5)]
        part = 0.3 + 0.7 * min(max(mass, 0), 1)
        assert shown[head] == pytest.approx([255 + (c - 255) * part for c in full], abs=1), head


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_number_only_grows_darker_or_on_dark_lighter(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record], scheme: str
) -> None:
    record = tiny_records["decoder"]
    values = colouring(record, "entropy")["values"]
    with open_page(browser, page_file(record), "colour=entropy", color_scheme=scheme) as page:
        drawn(page)
        shown = page.evaluate(COLOURS)
        numbers = page.locator(".hw-scale-numbers span").all_text_contents()
    order = [light(shown[head]) for head in sorted(values, key=lambda head: values[head])]
    assert order == sorted(order, reverse=scheme == "light")
    assert order[0] != order[-1]
    assert len(numbers) == 3


def test_a_number_around_nothing_has_two_hues_and_a_head_without_one_none(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    tmp_path: Path,
) -> None:
    own = {
        "name": "change",
        "title": "Change",
        "says": "",
        "unit": "nats",
        "low": -1.0,
        "high": 0.5,
    }
    own |= {"diverging": True, "values": {"0.0": -1.0, "0.1": 1.0, "0.2": 0.0}}
    path = page_file(tiny_records["decoder"])
    changed = with_index(path, {"colourings": [own]}, tmp_path / "own.html")
    with open_page(browser, changed) as page:
        drawn(page)
        shown = page.evaluate(COLOURS)
        ends = page.locator(".hw-scale-numbers span").all_text_contents()
        none = page.locator('[data-head="1.0"]')
        assert (
            none.get_attribute("aria-label", timeout=15000) == "1.0, no number, keys and values 0"
        )
        assert "hw-blank" in (none.get_attribute("class") or "")
    below, above, zero = shown["0.0"], shown["0.1"], shown["0.2"]
    assert below[0] > below[2] + 60
    assert above[2] > above[0] + 40
    assert light(zero) > max(light(below), light(above)) + 60
    assert ends == ["-1 nats", "0 nats", "1 nats"]


def test_heads_that_share_keys_stand_together(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    steps = {}
    for name in ("decoder", "encoder"):
        with open_page(browser, page_file(tiny_records[name])) as page:
            drawn(page)
            lefts = page.evaluate(LEFTS, "1")
        steps[name] = [b - a for a, b in itertools.pairwise(lefts)]
    assert steps["decoder"][1] > steps["decoder"][0] == steps["decoder"][2]  # 4 heads, 2 groups
    assert len(set(steps["encoder"])) == 1


def test_a_head_that_was_cut_away_is_an_empty_place_stepped_over(
    browser: Browser, page_file: Callable[..., Path]
) -> None:
    pruned = hw.prune(tiny_help.decoder(), heads=["1.0", "1.1"])
    record = hw.look(pruned, tiny_help.TEXT)
    with open_page(browser, page_file(record), "head=0.1") as page:
        assert head_of(page) == "0.1"
        missing = page.locator(".hw-grid .hw-missing")
        assert [one.get_attribute("aria-label") for one in missing.all()] == [
            f"1.{head} is not in this model" for head in (0, 1)
        ]
        page.keyboard.press("ArrowDown")
        assert head_of(page) == "1.2"  # the nearest one of the layer
        page.keyboard.press("ArrowLeft")
        assert head_of(page) == "1.2"
        missing.first.click()
        assert head_of(page) == "1.2"


def test_an_encoder_decoder_has_three_grids_beside_each_other(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["encoder-decoder"]), "head=encoder.1.3") as page:
        drawn(page)
        assert page.locator(".hw-grid").count() == 3
        assert all(page.locator(".hw-tables figcaption").all_text_contents())
        page.keyboard.press("ArrowRight")
        assert head_of(page) == "decoder.1.0"
        page.keyboard.press("ArrowLeft")
        assert head_of(page) == "encoder.1.3"


def test_a_kind_of_the_legend_stands_out(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    does = colouring(record, "does")
    with open_page(browser, page_file(record)) as page:
        drawn(page)
        counts = [int(text) for text in page.locator(".hw-kinds .hw-count").all_text_contents()]
        assert sum(counts) == len(record.heads())
        button = page.locator(".hw-kinds button").first
        button.click()
        drawn(page)
        kind = page.locator('.hw-kinds [aria-pressed="true"]').get_attribute("data-kind")
        out = page.evaluate(
            "() => [...document.querySelectorAll('.hw-dim')].map((cell) => cell.dataset.head)"
        )
        named = {h for h, (at, _) in does["values"].items() if does["kinds"][at]["name"] == kind}
        assert set(out) == set(does["values"]) - named
        assert out
        until_asked(page, "kind", str(kind))
        page.keyboard.press("Escape")
        drawn(page)
        assert not page.locator(".hw-dim").count()


def test_one_cell_is_in_the_order_of_tab_and_says_what_it_is(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["decoder"]), "head=2.1") as page:
        drawn(page)
        reached = page.locator('.hw-grid [tabindex="0"]')
        assert [one.get_attribute("data-head") for one in reached.all()] == ["2.1"]
        assert re.match(
            r"2\.1, [a-z ]+ [\d.<]+, keys and values 0$", str(reached.get_attribute("aria-label"))
        )
        reached.focus()
        page.keyboard.press("End")
        assert head_of(page) == "2.3"
        assert page.evaluate("document.activeElement.dataset.head") == "2.3"
        page.keyboard.press("Control+End")
        assert head_of(page) == "2.3"
        page.keyboard.press("Control+Home")
        assert head_of(page) == "0.0"
        page.keyboard.press("PageDown")
        assert head_of(page) == "2.0"


def test_a_move_touches_only_the_cells_it_leaves_and_reaches(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    watch = """() => { window.touched = new Set();
      const name = ({ target }) => target.dataset?.head ?? target.className;
      new MutationObserver((all) => all.forEach((one) => touched.add(name(one))))
        .observe(document.querySelector('.hw-tables'), { subtree: true, childList: true, attributes: true }); }"""
    with open_page(browser, page_file(tiny_records["decoder"]), "head=0.0") as page:
        drawn(page)
        page.evaluate(watch)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert head_of(page) == "1.1"
        assert page.evaluate("[...touched].sort()") in (["0.0", "0.1", "1.1"], ["0.0", "1.1"])


def test_the_head_compared_with_is_outlined(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    def beside(page: Page) -> list[str | None]:
        drawn(page)
        return [one.get_attribute("data-head") for one in page.locator(".hw-beside").all()]

    with open_page(browser, page_file(tiny_records["decoder"]), "head=1.1") as page:
        page.wait_for_selector(CHOSEN)
        page.keyboard.press("c")
        page.keyboard.press("ArrowRight")
        assert beside(page) == ["1.1"]
        assert head_of(page) == "1.2"
        until_asked(page, "withHead", "1.1")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("c")
        assert beside(page) == []
        page.wait_for_function("() => !location.hash.includes('withHead')", timeout=30000)
        assert "withScene" not in asked(page)


def test_the_grid_is_saved_as_a_picture_with_its_facts(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    with open_page(browser, page_file(record), "colour=entropy", accept_downloads=True) as page:
        page.wait_for_selector(CHOSEN)
        page.keyboard.press("e")
        page.get_by_label("What the picture shows").select_option("grid")
        with page.expect_download() as held:
            page.get_by_role("button", name="SVG").click()
        text = Path(held.value.path()).read_text("utf-8")
    assert text.count("<path") >= len(record.heads())
    assert "Heads by entropy" in text
    assert record.model in text
    assert "nats" in text
