"""The map in a browser says and draws what the record holds: weights, what is not seen or set apart, zoomed."""

from __future__ import annotations

import base64
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

    from headwise.see.record import Record

Files = Callable[..., Path]
Records = dict[str, Any]


# how light each cell is near its upper left corner, where no number stands
LIGHTNESS = """(n) => {
  const canvas = document.querySelector(".hw-map canvas"), dots = canvas.width / canvas.clientWidth;
  const box = document.querySelector(".hw-map-over").getBoundingClientRect(), own = canvas.getBoundingClientRect();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return Array.from({ length: n * n }, (_, i) => {
    const x = box.x - own.x + (i % n + 0.08) * (box.width / n);
    const y = box.y - own.y + (Math.floor(i / n) + 0.12) * (box.height / n);
    const at = (Math.round(y * dots) * canvas.width + Math.round(x * dots)) * 4;
    return 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
  });
}"""


def said(weight: float) -> str:
    """A weight as the page writes it."""
    if 0 < weight < 0.001:
        return "<.001"
    return re.sub(r"^0\.", ".", f"{weight:.{3 if weight < 0.1 else 2}f}")


def near(text: str, weight: float) -> bool:
    """Whether a text tells a weight, to within what the page keeps of it."""
    return any(said(max(0.0, weight + off)) in text for off in (0, 3e-4, -3e-4))


def ready(page: Page, head: str) -> None:
    """Wait until the map shows a head."""
    page.wait_for_selector(f'.hw-map canvas[data-shows="{head}"]')


def hover(page: Page, row: int, column: int, view: tuple[int, int, int, int]) -> str:
    """Point at a cell of the rows and columns in view; what the page reads there."""
    page.mouse.move(*place(page, row, column, view))
    page.wait_for_timeout(60)
    return page.locator(".hw-map-read").inner_text()


def place(
    page: Page, row: int, column: int, view: tuple[int, int, int, int]
) -> tuple[float, float]:
    page.locator(".hw-map-over").scroll_into_view_if_needed()
    box = page.locator(".hw-map-over").bounding_box()
    assert box is not None
    q0, q1, k0, k1 = view
    across, down = (column + 0.5 - k0) / (k1 - k0), (row + 0.5 - q0) / (q1 - q0)
    return box["x"] + across * box["width"], box["y"] + down * box["height"]


def whole(record: Record, head: str) -> tuple[int, int, int, int]:
    rows, columns = record.weights(head).shape
    return 0, rows, 0, columns


def test_each_cell_reads_as_the_record_has_it(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["decoder"]
    weights, view = record.weights("1.2"), whole(record, "1.2")
    with open_page(browser, page_file(record), "head=1.2") as page:
        ready(page, "1.2")
        for q, k in [(3, 0), (7, 4), (11, 11), (view[1] - 1, 2)]:
            text = hover(page, q, k, view)
            assert near(text, weights[q, k]), (text, weights[q, k])
            rank = int((weights[q] > weights[q, k] + 1e-4).sum()) + 1
            assert weights[q, k] < 0.003 or re.search(rf"\b{rank}(st|nd|rd|th) of its row", text), (
                text,
                rank,
            )
        assert "may not be seen" in hover(page, 2, 9, view)
        shot(page, "map")
        strongest = np.unravel_index(weights.argmax(), weights.shape)
        page.wait_for_function("document.querySelector('.hw-map canvas').ariaLabel !== null")
        label = page.locator(".hw-map canvas").first.get_attribute("aria-label") or ""
        tokens = record.sides[0].tokens
        assert f"{tokens[strongest[0]].label} looks at {tokens[strongest[1]].label}" in label


def test_dots_grow_darker_with_weight(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    record = tiny_records["encoder"]
    weights = record.weights("0.1")
    with open_page(browser, page_file(record), "head=0.1") as page:
        ready(page, "0.1")
        found = page.evaluate(LIGHTNESS, len(weights))
    light = np.array(found)
    order = weights.ravel().argsort()
    darker = np.diff(light[order])
    assert (darker <= 1.5).all(), darker.max()
    assert light[order[0]] - light[order[-1]] > 60


def test_a_click_pins_and_escape_lets_go(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    record = tiny_records["decoder"]
    view = whole(record, "1.2")
    with open_page(browser, page_file(record), "head=1.2") as page:
        ready(page, "1.2")
        page.mouse.click(*place(page, 8, 3, view))
        page.wait_for_function(
            "location.hash.includes('query=8') && location.hash.includes('key=3')"
        )
        hover(page, 5, 1, view)
        assert "query=8" in page.evaluate("location.hash")
        page.wait_for_selector(".hw-map table")
        lines = page.locator(".hw-map table tr").all_inner_texts()[1:]
        exact = np.sort(record.weights("1.2")[8])[::-1]
        assert len(lines) == 8
        assert all(near(line, w) for line, w in zip(lines, exact, strict=False))
        page.keyboard.press("Escape")
        page.wait_for_function("!location.hash.includes('query=8')")


@pytest.mark.parametrize("way", ["hidden", "renormalised"])
def test_what_is_set_apart_is_told_with_its_mass(
    browser: Browser, page_file: Files, tiny_records: Records, way: str
) -> None:
    record = tiny_records["decoder"]
    weights, view = record.weights("1.2"), whole(record, "1.2")
    with open_page(browser, page_file(record), f"head=1.2&first={way}") as page:
        ready(page, "1.2")
        line = page.locator(".hw-map-apart").inner_text()
        assert f"first token {way}" in line
        assert near(line, weights[:, 0].mean()), (line, weights[:, 0].mean())
        assert way in hover(page, 6, 0, view)
        scale = 1 / (1 - weights[6, 0]) if way == "renormalised" else 1
        text = hover(page, 6, 4, view)
        assert near(text, weights[6, 4] * scale), (text, weights[6, 4] * scale)


def test_by_words(browser: Browser, page_file: Files, tiny_records: Records) -> None:
    record = tiny_records["decoder"]
    weights, words = record.weights("2.0"), record.sides[0].words
    assert len(words) < len(weights)
    with open_page(browser, page_file(record), "head=2.0&unit=words") as page:
        ready(page, "2.0")
        view = (0, len(words), 0, len(words))
        for q, k in [(4, 1), (6, 6), (len(words) - 1, 3)]:
            rows, columns = (slice(words[at].first, words[at].last) for at in (q, k))
            text = hover(page, q, k, view)
            assert near(text, weights[rows, columns].sum(1).mean()), text


def test_zoom_by_wheel_box_buttons_keys_and_the_small_whole(
    browser: Browser, page_file: Files, tiny_records: Records, shot: Callable[..., Path]
) -> None:
    record = tiny_records["decoder"]
    weights, view = record.weights("1.2"), whole(record, "1.2")
    zoom = "new URLSearchParams(location.hash.slice(1)).get('zoom')"

    def seen(page: Page) -> tuple[int, int, int, int]:
        page.wait_for_timeout(400)  # the address follows with a pause
        ends = page.evaluate(zoom)
        return tuple(map(int, ends.split(","))) if ends else view  # type: ignore[return-value]

    with open_page(browser, page_file(record), "head=1.2") as page:
        ready(page, "1.2")
        assert not page.locator(".hw-map-mini").is_visible()
        page.mouse.move(*place(page, 4, 2, view))
        page.keyboard.down("Control")
        page.mouse.wheel(0, -120)
        page.keyboard.up("Control")
        now = seen(page)
        assert 4 <= now[1] - now[0] < view[1]
        assert now[0] <= 4 < now[1]
        assert now[2] <= 2 < now[3]
        assert page.locator(".hw-map-mini").is_visible()
        row, column = now[1] - 1, now[2]
        assert near(hover(page, row, column, now), weights[row, column])
        page.get_by_role("button", name="Show the whole map").click()
        assert seen(page) == view
        page.mouse.move(*place(page, 4, 1, view))
        page.mouse.down()
        page.mouse.move(*place(page, 9, 6, view), steps=4)
        shot(page, "box")
        page.mouse.up()
        assert seen(page) == (4, 10, 1, 7)
        assert near(hover(page, 8, 3, (4, 10, 1, 7)), weights[8, 3])
        page.locator(".hw-map canvas").first.focus()
        page.keyboard.press("Shift+ArrowDown")
        assert seen(page) == (6, 12, 1, 7)
        page.keyboard.press("+")
        assert seen(page)[1] - seen(page)[0] == 4
        mini = page.locator(".hw-map-mini").bounding_box()
        assert mini is not None
        page.mouse.click(mini["x"] + 3, mini["y"] + 3)
        assert seen(page)[::2] == (0, 0)
        page.keyboard.press("0")
        assert seen(page) == view


def test_of_a_pooled_map_the_threshold_and_the_rest_are_told(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    record = tiny_records["encoder"]
    weights, view = record.weights("1.1"), whole(record, "1.1")
    least = 0.05
    q = int(np.where(weights < least, weights, 0).sum(1).argmax())
    k = int(np.flatnonzero(weights[q] < least)[0])
    with open_page(browser, page_file(record, least=least), "head=1.1") as page:
        ready(page, "1.1")
        text = hover(page, q, k, view)
        assert "under .05, not kept alone" in text
        assert near(text, weights[q][weights[q] < least].sum()), text


def test_a_server_gives_the_rows_in_view_exactly(
    browser: Browser, page_file: Files, tiny_records: Records, tmp_path: Path
) -> None:
    record = tiny_records["encoder"]
    weights, least = record.weights("1.1"), 0.2
    path = page_file(record, least=least)
    rows = base64.b64encode(Scene(record).rows("1.1", 4, 12)).decode()
    start = 'view(document.getElementById("viewer"), fileSource(document),'
    own = (
        "const plain = fileSource(document), asked = window.asked = [];\n"
        "const index = async () => ({ ...await plain.index(), live: { rows: true } });\n"
        "view(document.getElementById('viewer'), { ...plain, index,"
        f"rows: async (...what) => {{ asked.push(what.join()); const text = atob('{rows}');\n"
        "return Uint8Array.from(text, (c) => c.charCodeAt(0)); } },"
    )
    text = path.read_text("utf-8")
    assert text.count(start) == 1
    live = tmp_path / "live.html"
    live.write_text(text.replace(start, own), "utf-8")
    q, k = 6, int(np.flatnonzero((weights[6] < least) & (weights[6] > 0.002))[0])
    with open_page(browser, live, f"head=1.1&zoom=4,12,0,{len(weights)}") as page:
        ready(page, "1.1")
        page.wait_for_function("window.asked.length > 0")
        page.wait_for_timeout(150)
        text = hover(page, q, k, (4, 12, 0, len(weights)))
        assert near(text, weights[q, k]), (text, weights[q, k])
        assert page.evaluate("window.asked") == ["0,1.1,4,12"]


def test_a_wide_map_of_two_texts(browser: Browser, page_file: Files, tiny_records: Records) -> None:
    record = tiny_records["encoder-decoder"]
    weights = record.weights("cross.1.2")
    with open_page(
        browser, page_file(record), "head=cross.1.2", viewport={"width": 700, "height": 900}
    ) as page:
        ready(page, "cross.1.2")
        text = hover(page, 2, 5, (0, weights.shape[0], 0, weights.shape[1]))
        assert near(text, weights[2, 5])


@pytest.mark.models
def test_smollm2_says_where_it_looks(browser: Browser, page_file: Files) -> None:
    record = hw.look(
        hw.load("smollm2"), "The animal didn't cross the street because it was too tired"
    )
    labels = [token.label for token in record.sides[0].tokens]
    q, k = labels.index("it"), labels.index("animal")
    with open_page(browser, page_file(record), "head=13.8") as page:
        ready(page, "13.8")
        text = hover(page, q, k, whole(record, "13.8"))
        assert "it" in text
        assert "1st of its row" in text
        assert near(text, record.weights("13.8")[q, k])


def test_what_is_pinned_is_outlined_and_keeps_its_colours(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    with open_page(browser, page_file(tiny_records["encoder"]), "head=1.2") as page:
        ready(page, "1.2")
        over = page.locator(".hw-map-over").bounding_box()
        assert over is not None
        cell = over["height"] / len(tiny_records["encoder"].tokens)
        clip = {"x": over["x"] + 5, "width": over["width"] - 10}
        clip |= {"y": over["y"] + 4 * cell + 4, "height": cell - 8}
        plain = page.screenshot(clip=clip)
        page.evaluate("location.hash = 'head=1.2&query=4'")
        page.wait_for_selector(".hw-map-row:not([hidden])")
        page.wait_for_timeout(100)
        assert page.screenshot(clip=clip) == plain
        around = clip | {"y": clip["y"] - 6, "height": clip["height"] + 12}
        lined = page.screenshot(clip=around)
        page.evaluate("location.hash = 'head=1.2'")
        page.wait_for_selector(".hw-map-row[hidden]", state="attached")
        assert page.screenshot(clip=around) != lined


def test_chinese_and_emoji_stand_upright_above_their_columns(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    with open_page(browser, page_file(tiny_records["mixed"]), "head=1.2&unit=words") as page:
        ready(page, "1.2")
        page.locator(".hw-export summary").click()
        with page.expect_download() as saved:
            page.locator(".hw-export").get_by_role("button", name="SVG").click()
        svg = Path(saved.value.path()).read_text("utf-8")
    texts = re.findall(r"<text([^>]*)>([^<]*)<", svg)
    turned = "".join(text for how, text in texts if 'transform="matrix(0' in how)
    straight = [text for how, text in texts if 'transform="matrix(0' not in how]
    assert "book" in turned
    assert not set("他看了👩🚀") & set(turned)
    assert {"他", "看", "了", "🚀"} <= set(straight)  # those of rows are isolated
