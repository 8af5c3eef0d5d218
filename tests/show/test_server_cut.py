"""The Cut view of a served page: which token a row is of, why there is no plan, and a grid that says what it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from server_help import Process

from browser_help import axe, open_page
from headwise.show.page.bundle import script

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_the_cut_view_says_where_and_why(
    browser: Browser, server: Process, shot: Callable[..., Path]
) -> None:
    with open_page(browser, server.address) as page:
        page.wait_for_selector(".hw-tabs button:visible")
        page.click('[data-tab="cut"]')
        page.wait_for_selector(".hw-cut-effects:not([aria-busy])")
        grid = page.locator(".hw-cut [role=grid]")
        rows = grid.get_by_role("row")
        assert [rows.nth(i).get_by_role("gridcell").count() for i in range(2)] == [6, 6]
        save = page.get_by_role("button", name="Save the plan")
        page.click('[data-cut="0.2"]', modifiers=["Shift"])
        page.wait_for_selector("text=only halved cannot be cut")
        assert save.is_disabled()
        page.click('[data-cut="1.3"]')
        page.wait_for_selector(".hw-cut-most")
        page.wait_for_selector(".hw-cut-effects:not([aria-busy])")
        assert save.is_enabled()
        assert page.locator("text=only halved").count() == 0
        named = page.locator(".hw-cut-most tbody th").all_inner_texts()
        assert named
        assert all(re.match(r"token \d+, ", line) for line in named)
        said = page.locator(".hw-cut-most tbody td").all_inner_texts()
        assert not any("<.001 → <.001" in line for line in said)
        shot(page, "cut")
        assert not axe(page)


ROWS = """async () => {
  const given = [["a", "a", 0.2, 0.1], ["a", "a", 0.0001, 0.0002], ["a", "b", 0.0001, 0.0002]];
  const tokens = given.map(([b, a, x, y], position) => ({
    position, label: "x", divergence: 1, before: [[b, 0.5, 0.4]], after: [[a, 0.4, 0.5]], actual: ["c", x, y] }));
  const element = document.createElement("div");
  const loss = { before: 1, after: 2, change: 1, change_error: null, count: 2 };
  const { showEffects } = MODULE;
  showEffects(element, {}, { loss, tokens }, null, true);
  const rows = [...element.querySelectorAll(".hw-cut-most tbody tr")];
  return rows.map((row) => row.textContent.replace(/[\u2066-\u2069]/g, ""));
}"""


def test_a_row_without_a_change_is_left_out(browser: Browser) -> None:
    page = browser.new_page()
    module = script("cut/cut_effects.js").replace("export ", "")
    found = page.evaluate(ROWS.replace("const { showEffects } = MODULE;", module))
    page.close()
    assert len(found) == 2
    assert found[0].startswith("token 0, x")
    assert "rare in both" in found[1]
