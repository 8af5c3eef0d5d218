"""Two heads side by side: distances, differences and places are those of the records."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import headwise as hw
from browser_help import axe, open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

A, B = "1.2", "2.1"
PAIR = f"head={A}&tab=compare&withHead={B}"


def plain(text: str) -> str:
    """A text without the marks that keep its direction."""
    return re.sub("[\u2066-\u2069]", "", text)


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d*\.\d+", text)]


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Total variation distance of the rows."""
    found: np.ndarray = np.abs(a - b).sum(-1) / 2
    return found


def ready(page: Page) -> None:
    page.wait_for_selector(".hw-compared-map canvas")


@pytest.fixture(scope="module")
def changed() -> tuple[Record, Record]:
    """A text before and after two heads of the first layer are cut."""
    import tiny_help

    torch.manual_seed(0)
    model = tiny_help.decoder()
    before = hw.look(model, tiny_help.TEXT)
    with hw.ablate(model, ["0.1", "0.2"], how="zero"):
        return before, hw.look(model, tiny_help.TEXT)


@pytest.mark.parametrize("words", [False, True])
def test_rows_are_as_far_apart_as_the_record_says(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    words: bool,
) -> None:
    record = tiny_records["decoder"]
    exact = apart(*(record.pattern(head, words=words).values for head in (A, B)))
    unit = "&unit=words" if words else ""
    with open_page(browser, page_file(record), PAIR + unit) as page:
        ready(page)
        assert page.locator(".hw-compared-map").count() == 3
        (mean,) = numbers(page.locator(".hw-distance").inner_text())
        assert mean == pytest.approx(exact.mean(), abs=0.006)
        listed = page.locator(".hw-furthest button")
        rows = [int(one.get_attribute("data-query") or -1) for one in listed.all()]
        assert rows == np.argsort(-exact, kind="stable")[: len(rows)].tolist()
        for row, text in zip(rows, listed.all_inner_texts(), strict=True):
            assert numbers(text)[-1] == pytest.approx(exact[row], abs=0.006)
        listed.nth(1).click()
        page.wait_for_selector(f'.hw-furthest [aria-pressed="true"][data-query="{rows[1]}"]')
        sides = record.sides[0].words if words else record.tokens
        label = sides[rows[1]].text if words else record.tokens[rows[1]].label
        assert plain(page.locator(".hw-compare-readout").inner_text()).startswith(f"Row of {label}")
        assert axe(page, ".hw-compare") == []


def test_a_cell_pointed_at_is_read_in_both_and_their_difference(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    query, key = 6, 3
    one, two = (record.weights(head)[query, key] for head in (A, B))
    with open_page(browser, page_file(record), f"{PAIR}&query={query}&key={key}") as page:
        ready(page)
        crosses = page.locator(".hw-compare-cross:not([hidden])")
        assert crosses.count() == 6
        found = numbers(page.locator(".hw-compare-readout").inner_text())
        assert np.allclose(found, [one, two, abs(two - one)], atol=0.006)
        row = crosses.first
        height = row.evaluate("(one) => one.offsetHeight")
        left, top = row.evaluate("(one) => [one.offsetLeft, one.offsetTop]")
        page.keyboard.press("Escape")
        page.wait_for_function("() => !location.hash.includes('query')")
        second = page.locator(".hw-compared-map canvas").nth(1)
        second.hover(position={"x": left + 2, "y": top - height / 2})  # the row above
        page.wait_for_selector(".hw-compare-cross:not([hidden])")
        says = plain(page.locator(".hw-compare-readout").inner_text())
        label = record.tokens[query - 1].label
        assert says.startswith(f"A: {label} → {record.tokens[0].label}")


def test_pooled_cells_leave_a_distance_between_two_numbers(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    exact = apart(*(record.weights(head) for head in (A, B)))
    with open_page(browser, page_file(record, least=0.09), PAIR) as page:
        ready(page)
        low, high = numbers(page.locator(".hw-distance").inner_text().replace("–", " "))
        assert low - 0.006 <= exact.mean() <= high + 0.006
        assert high - low > 0.01
        assert "." in page.locator(".hw-furthest button").first.inner_text()


def test_every_head_s_change_is_measured_and_leads_to_it(
    browser: Browser, page_file: Callable[..., Path], changed: tuple[Record, Record]
) -> None:
    before, after = changed
    exact = {
        str(head): apart(before.weights(head), after.weights(head)).mean()
        for head in before.heads()
    }
    scenes = Scene(before, title="whole"), Scene(after, title="cut", note="0.1 and 0.2 cut")
    with open_page(browser, page_file(*scenes), "head=1.0&tab=compare") as page:
        ready(page)
        page.wait_for_selector(".hw-changes progress", state="hidden")
        listed = page.locator(".hw-changes [data-changed]")
        values = {
            str(one.get_attribute("data-changed")): numbers(one.inner_text())[-1]
            for one in listed.all()
            if "<" not in one.inner_text()
        }
        assert len(values) >= 5
        for head, value in values.items():
            assert value == pytest.approx(exact[head], abs=0.006 if exact[head] >= 0.1 else 0.0012)
        order = sorted(exact, key=lambda head: -exact[head])
        assert exact[next(iter(values))] == pytest.approx(exact[order[0]], abs=0.001)
        assert not [head for head in values if head.startswith("0.")]
        listed.nth(1).click()
        page.wait_for_function(f"location.hash.includes('head={list(values)[1]}')")
        assert page.locator(".hw-changes [data-changed]").count() == listed.count()


def test_two_models_on_one_text_are_linked_by_characters(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    one, two = tiny_records["decoder"], tiny_records["encoder"]
    assert one.text == two.text
    at = 5
    start, end = one.tokens[at].start, one.tokens[at].end
    (same,) = [i for i, t in enumerate(two.tokens) if t.start <= (start + end) / 2 < t.end]
    assert same != at
    place = f"head={A}&tab=compare&withScene=1&withHead=1.1&query={at}&key=2"
    with open_page(browser, page_file(one, two), place) as page:
        ready(page)
        assert page.locator(".hw-compared-map").count() == 2
        assert page.locator(".hw-distance").count() == 0
        says = plain(page.locator(".hw-compare-readout").inner_text())
        assert f"A: {one.tokens[at].label} →" in says
        assert f"B: {two.tokens[same].label} →" in says
        assert page.locator(".hw-changes").is_hidden()


def test_heads_are_chosen_by_name_and_swapped(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["decoder"]), f"head={A}&tab=compare") as page:
        page.wait_for_selector("text=Choose another head")
        field = page.get_by_label("Head of B")
        field.fill("9.9")
        field.press("Enter")
        assert field.evaluate("(one) => one.validationMessage").startswith("There is no head 9.9")
        field.fill(B)
        field.press("Enter")
        ready(page)
        page.get_by_role("button", name="Swap").click()
        page.wait_for_function(f"location.hash.includes('head={B}&')")
        assert page.get_by_label("Head of B").input_value() == A


def test_other_texts_stand_side_by_side_without_a_difference(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    path = page_file(tiny_records["decoder"], tiny_records["mixed"])
    with open_page(browser, path, f"head={A}&tab=compare&withScene=1&query=4&key=1") as page:
        ready(page)
        assert "Other texts" in page.locator(".hw-compare-numbers").inner_text()
        assert page.locator(".hw-compare-cross:not([hidden])").count() == 2
        assert plain(page.locator(".hw-compare-readout").inner_text()).endswith("B: –")


def test_it_opens_on_the_head_that_a_cut_changed_most(
    browser: Browser, page_file: Callable[..., Path], changed: tuple[Record, Record]
) -> None:
    before, after = changed
    exact = {
        str(head): apart(before.weights(head), after.weights(head)).mean()
        for head in before.heads()
    }
    most = max(exact, key=lambda head: exact[head])
    scenes = Scene(before, title="whole"), Scene(after, title="cut", note="0.1 and 0.2 cut")
    path = page_file(*scenes)
    with open_page(browser, path, "head=0.3&tab=compare") as page:
        page.wait_for_function(f"() => location.hash.includes('withHead={most}')")
        assert page.get_by_label("Head of A").input_value() == most
    with open_page(browser, path, "head=0.3&tab=compare&withHead=0.3&withScene=1") as page:
        ready(page)  # what a person chose stays
        assert page.get_by_label("Head of A").input_value() == "0.3"
        assert numbers(page.locator(".hw-distance").inner_text()) == [0.0]


def test_what_is_the_same_in_all_that_is_kept_is_not_called_apart(
    browser: Browser, page_file: Callable[..., Path], changed: tuple[Record, Record]
) -> None:
    pooled = [Scene(one, title=name, least=0.09) for one, name in zip(changed, "ab", strict=True)]
    with open_page(
        browser, page_file(*pooled), "head=0.3&tab=compare&withHead=0.3&withScene=1"
    ) as page:
        ready(page)
        says = page.locator(".hw-compare-numbers").inner_text()
        assert "No difference in what is kept (cells under .09" in says
        assert "apart on average" not in says


@pytest.mark.parametrize("words", [False, True])
def test_what_may_not_be_seen_is_hatched_and_what_is_hidden_grey(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    words: bool,
) -> None:
    count = """(canvas, colour) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4)
        found += colour.every((c, at) => Math.abs(data[i + at] - c) < 2);
      return found;
    }"""
    place = PAIR + ("&unit=words" if words else "")
    path, grey = page_file(tiny_records["decoder"]), [245, 247, 249]
    with open_page(browser, path, place) as page:
        ready(page)
        canvas = page.locator(".hw-compared-map canvas").first
        shown = canvas.evaluate(count, grey)
        lines = canvas.evaluate(
            """(canvas) => {
              const { data } = canvas.getContext("2d").getImageData(canvas.width - 40, canvas.height / 3, 30, 30);
              return new Set(Array.from({ length: 900 }, (_, i) => data[4 * i])).size;
            }"""
        )
        assert lines > 2  # slanted lines, not one colour
    with open_page(browser, path, place + "&first=hidden") as page:
        ready(page)
        hidden = page.locator(".hw-compared-map canvas").first.evaluate(count, grey)
        assert hidden > shown + 200
