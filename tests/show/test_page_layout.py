"""The layout of the page: folded controls, heads at zero, colours offered, groups of a table, the first head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shell_help import drawn, head_of, until_asked

from browser_help import open_page
from headwise.see.telling import telling
from headwise.show.page.colouring import numbers
from headwise.show.page.saving import save_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

TOP = "(name) => document.querySelector(name).getBoundingClientRect().top"
HIGH = "(name) => document.querySelector(name).getBoundingClientRect().height"
NARROW = {"width": 390, "height": 800}


def top(page: Page, name: str) -> float:
    drawn(page)
    return float(page.evaluate(TOP, name))


def high(page: Page, name: str) -> float:
    drawn(page)
    return float(page.evaluate(HIGH, name))


def test_on_a_phone_the_view_is_near_the_top_and_the_controls_are_folded(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["mixed"]), viewport=NARROW) as page:
        page.wait_for_selector("[data-head]")
        before = top(page, ".hw-stage")
        assert before < 620
        assert top(page, ".hw-legend") > before
        assert high(page, ".hw-strips") <= 95
        choice = page.locator('.hw-choices [data-choice="first"]')
        assert not choice.is_visible()
        page.locator(".hw-fold").click()
        assert choice.is_visible()
        assert top(page, ".hw-stage") == before, "nothing moves"
        choice.focus()
        page.keyboard.press("Escape")
        assert not choice.is_visible()
        assert page.evaluate("document.activeElement.className") == "hw-fold"


@pytest.mark.parametrize(("width", "most"), [(700, 48), (1000, 80), (1440, 48)])
def test_the_bar_is_low_and_its_menu_moves_nothing(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    width: int,
    most: int,
) -> None:
    size = {"width": width, "height": 900}
    with open_page(browser, page_file(tiny_records["mixed"]), viewport=size) as page:
        page.wait_for_selector("[data-head]")
        assert high(page, ".hw-controls") <= most
        before = top(page, ".hw-stage")
        page.keyboard.press("e")
        assert page.locator(".hw-export-box").is_visible()
        assert top(page, ".hw-stage") == before


def test_where_the_grid_is_cut_off_it_says_so(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    with open_page(browser, page_file(tiny_records["decoder"]), viewport=NARROW) as page:
        page.wait_for_selector("[data-head]")
        page.add_style_tag(content=".headwise .hw-tables { max-height: 3rem !important; }")
        page.locator(".hw-grid-more").wait_for(state="visible")
        page.locator(".hw-tables").evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
        page.locator(".hw-grid-more").wait_for(state="hidden")


def test_heads_at_zero_are_crossed_and_said(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    scene = Scene(tiny_records["decoder"], note="without 1.1", off=["1.1", "9.9"])
    assert scene.index["off"] == ["1.1"]
    with open_page(browser, page_file(scene), "head=1.1") as page:
        drawn(page)
        assert page.locator(".hw-at-zero").evaluate_all(
            "(all) => all.map((x) => x.dataset.head)"
        ) == ["1.1"]
        assert "at zero here" in str(page.locator('[data-head="1.1"]').get_attribute("aria-label"))
        assert "at zero here" in page.locator(".hw-numbers h2").inner_text()
        assert "at zero here" in page.locator(".hw-grid-says").inner_text()
        page.keyboard.press("ArrowRight")
        drawn(page)
        assert "at zero" not in page.locator(".hw-numbers h2").inner_text()


@pytest.mark.parametrize("most", [True, False])
def test_where_most_heads_are_of_one_kind_numbers_are_offered(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record], most: bool
) -> None:
    scene = Scene(tiny_records["decoder"])
    values = scene.index["colourings"][0]["values"]
    for at, head in enumerate(values):
        values[head] = [0 if most or at % 2 else 1, 0.5]
    with open_page(browser, page_file(scene)) as page:
        page.wait_for_selector("[data-head]")
        offered = page.locator(".hw-offered")
        assert (offered.count() > 0) is most
        if most:
            offered.first.click()
            until_asked(page, "colour", "entropy")
            drawn(page)
            assert page.locator(".hw-offered").count() == 0


def test_a_page_opens_on_the_most_telling_head(
    browser: Browser, tiny_records: dict[str, Record], tmp_path: Path
) -> None:
    record = tiny_records["decoder"]
    scene = Scene(record)
    wanted = str(telling(record, scene.summaries, 1)[0][0].id)
    assert wanted != "0.0"
    save_page(record, tmp_path / "page.html")
    save_page(record, tmp_path / "asked.html", start={"head": "2.1"})
    for name, head in (("page.html", wanted), ("asked.html", "2.1")):
        with open_page(browser, tmp_path / name) as page:
            assert head_of(page) == head
            assert "#" not in page.url.rstrip("#")


def with_profile(scene: Scene) -> Scene:
    heads = list(scene.index["heads"])
    for name in ("entropy", "a_rather_long_name_of_a_number"):
        values = {head: 0.1 * at for at, head in enumerate(heads)}
        title, of = name.replace("_", " "), f"profile.{name}"
        one: dict[str, Any] = numbers(of, f"{title} (profile)", "", "", values)
        scene.index["colourings"].append(one | {"group": "profile", "short": title})
    sure = {"profile.entropy": "0.1 to 0.2"}
    block = {"title": "Profile over 8 texts", "lines": ["entropy 0.1 (0.1 to 0.2)"], "cases": []}
    for head in heads:
        scene.index["evidence"][head] = [block | {"group": "profile", "sure": sure}]
    return scene


def test_the_numbers_of_a_table_are_folded_and_stand_once(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    path = page_file(with_profile(Scene(tiny_records["decoder"])))
    with open_page(browser, path, "head=1.1") as page:
        group = page.locator('.hw-corpus[data-group="profile"]')
        assert "2 numbers" in group.locator("summary").inner_text()
        assert not group.locator(".hw-bars").is_visible()
        group.locator("summary").click()
        lines = group.locator(".hw-part-name").all_inner_texts()
        assert lines == ["entropy 0.1 to 0.2", "a rather long name of a number"]
        for name in group.locator(".hw-part-name").all():
            assert name.evaluate("(one) => one.scrollWidth <= one.clientWidth")
        assert page.locator(".hw-numbers").inner_text().count("0.1 to 0.2") == 1
        page.locator('[data-head="1.2"]').click()
        drawn(page)
        assert page.locator(".hw-corpus .hw-bars").is_visible(), "what stands open stays so"


def test_beside_a_middling_page_bars_do_not_stretch(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    size = {"width": 1000, "height": 900}
    with open_page(browser, page_file(tiny_records["decoder"]), viewport=size) as page:
        page.wait_for_selector(".hw-ranked")
        widths = page.locator(".hw-numbers .hw-part").evaluate_all(
            "(all) => all.map((x) => x.clientWidth)"
        )
        assert 20 < max(widths) < 120
