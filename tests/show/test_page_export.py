"""Pictures saved from the page are of paper quality and say what they show."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

SVG = "{http://www.w3.org/2000/svg}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
PIXEL_OF_7_POINTS = 7 * 96 / 72
VIEW = "head=1.2&tab=compare&withHead=2.1&query=4&first=hidden"


def saved(page: Page, button: str, what: str = "tab") -> tuple[str, bytes]:
    """The file that a button of the export hands out: its name and bytes."""
    box = page.locator(".hw-export")
    if box.get_attribute("open") is None:
        page.keyboard.press("e")
    box.locator("select").select_option(what)
    with page.expect_download() as waiting:
        box.get_by_role("button", name=button, exact=True).click()
    download = waiting.value
    return download.suggested_filename, Path(download.path()).read_bytes()


def ready(page: Page) -> None:
    page.wait_for_selector(".hw-compared-map canvas")


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


@pytest.fixture
def compared(page_file: Callable[..., Path], tiny_records: dict[str, Record]) -> Path:
    return page_file(tiny_records["decoder"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_svg_is_the_picture_of_the_canvas(
    browser: Browser, compared: Path, tmp_path: Path, scheme: str
) -> None:
    with open_page(browser, compared, VIEW, color_scheme=scheme) as page:
        ready(page)
        name, svg = saved(page, "SVG", "whole")
        _, png = saved(page, "PNG 2×", "whole")
    assert name == "LlamaForCausalLM-1.2-grid-compare.svg"
    path = tmp_path / "picture.svg"
    path.write_bytes(svg)
    exact = pixels(png)
    high, wide = exact.shape[0] // 2, exact.shape[1] // 2
    size = {"viewport": {"width": wide, "height": high}, "device_scale_factor": 2}
    with open_page(browser, path, **size) as page:
        drawn = pixels(page.screenshot())
    drawn = drawn[: exact.shape[0], : exact.shape[1]]
    exact = exact[: drawn.shape[0], : drawn.shape[1]]
    apart = np.abs(drawn - exact).max(-1)
    assert (apart > 40).mean() < 0.01  # letters and edges are smoothed otherwise
    assert np.abs(drawn - exact).mean() < 1.5
    assert (exact[:4] == 255).all()  # the ground is white, whatever the screen has
    assert len(np.unique(exact.reshape(-1, 3), axis=0)) > 50


def test_an_svg_holds_text_as_text_in_its_language(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    scene = Scene(tiny_records["decoder"])
    index = scene.index
    tokens = index["sides"][0]["tokens"]
    tokens[3][0], tokens[4][0], tokens[5][0] = "狗<&>", 'ספר"', "\x00\x1b"
    path = page_file(scene)
    with open_page(browser, path, "head=1.2&tab=compare&withHead=2.1") as page:
        ready(page)
        _, svg = saved(page, "SVG")
    root = ET.fromstring(svg)
    texts = list(root.iter(f"{SVG}text"))
    words = ["".join(text.itertext()) for text in texts]
    assert {"狗<&>", 'ספר"', "A: 1.2", "B: 2.1", "B − A"} <= set(words)
    assert {text.get(LANG) for text, word in zip(texts, words, strict=True) if "狗" in word} == {
        "zh"
    }
    assert min(float(text.get("font-size", 0)) for text in texts) >= PIXEL_OF_7_POINTS
    assert all("sans-serif" in text.get("font-family", "") for text in texts)
    assert root.find(f"{SVG}title") is not None
    desc = root.find(f"{SVG}desc")
    assert desc is not None
    assert "LlamaForCausalLM, head 1.2 (KV group 1)" in (desc.text or "")
    assert not [one for one in root.iter() if one.tag.endswith(("script", "foreignObject"))]


def test_a_png_has_the_size_asked_for_and_says_what_it_shows(
    browser: Browser, compared: Path
) -> None:
    with open_page(browser, compared, VIEW) as page:
        ready(page)
        name, large = saved(page, "PNG 300 dpi")
        _, small = saved(page, "PNG 2×")
        alt = page.locator(".hw-export textarea")
        page.get_by_role("button", name="Copy alt text").click()
        alt.wait_for()
        said = alt.input_value()
    assert name == "LlamaForCausalLM-1.2-compare.png"
    one, two = (Image.open(io.BytesIO(data)) for data in (large, small))
    one.load()  # all check sums are right, or it raises
    assert np.allclose(np.array(one.size) / two.size, 300 / 96 / 2, rtol=0.01)
    assert np.allclose(one.info["dpi"], 300, atol=0.5)
    assert np.allclose(two.info["dpi"], 192, atol=0.5)
    facts = one.info["Description"]
    for part in ("head 1.2", "head 2.1", "The animal didn't", "first token hidden", "headwise"):
        assert part in facts, part
    assert "Total variation distance of rows" in facts
    assert one.info["Title"] == "A: 1.2; B: 2.1"
    assert "head 2.1" in said
    assert "orange where A looks more" in said


def test_words_stay_on_the_sheet(browser: Browser, compared: Path) -> None:
    with open_page(browser, compared, VIEW) as page:
        ready(page)
        _, svg = saved(page, "SVG", "whole")
        root = ET.fromstring(svg)
        wide = page.evaluate(
            """(svg) => {
              const held = document.createElement("div");
              held.innerHTML = svg.slice(svg.indexOf("<svg"));
              document.body.append(held);
              const width = held.firstChild.viewBox.baseVal.width;
              return [...held.querySelectorAll("text")].map((one) => one.getBBox())
                .filter((box) => box.x < -30 || box.x + box.width > width + 0.5).length;
            }""",
            svg.decode(),
        )
    assert wide == 0
    assert float(root.get("width", 0)) > 300


@pytest.mark.parametrize("record", ["decoder", "encoder-decoder"])
def test_every_tab_is_saved_as_it_is_drawn(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    tmp_path: Path,
    record: str,
) -> None:
    path, done = page_file(tiny_records[record]), []
    head = str(tiny_records[record].heads()[1])
    with open_page(browser, path, f"head={head}&withHead={head[:-1]}2&query=4&key=1") as page:
        for name in ("map", "lines", "compare", "masks"):
            page.locator(f'[data-tab="{name}"]').click()
            page.wait_for_selector(f'[data-tab="{name}"][aria-selected="true"]')
            page.wait_for_timeout(150)
            _, svg = saved(page, "SVG")
            _, png = saved(page, "PNG 2×")
            page.keyboard.press("Escape")
            done.append((name, svg, png))
    for name, svg, png in done:
        root, exact = ET.fromstring(svg), pixels(png)
        sizes = [float(one.get("font-size", 0)) for one in root.iter(f"{SVG}text")]
        assert min(sizes) >= PIXEL_OF_7_POINTS, name
        assert len(np.unique(exact.reshape(-1, 3), axis=0)) > 8, name
        (tmp_path / f"{name}.svg").write_bytes(svg)
        size = {"viewport": {"width": exact.shape[1] // 2, "height": exact.shape[0] // 2}}
        with open_page(browser, tmp_path / f"{name}.svg", device_scale_factor=2, **size) as page:
            drawn = pixels(page.screenshot())[: exact.shape[0], : exact.shape[1]]
        apart = np.abs(drawn - exact[: drawn.shape[0], : drawn.shape[1]])
        assert apart.mean() < 2, name


def test_a_tab_that_was_never_shown_is_saved_too(
    browser: Browser, page_file: Callable[..., Path], tiny_scenes: dict[str, Scene]
) -> None:
    path = page_file(tiny_scenes["decoder"])
    with open_page(browser, path, "head=1.2&query=4") as page:
        page.wait_for_selector(".hw-map-plot canvas")
        found = {what: saved(page, "SVG", what)[1].decode() for what in ("masks", "neurons")}
        assert page.locator(".hw-export select").input_value() == "neurons"
        page.locator('[data-tab="lines"]').click()
        page.keyboard.press("e")
        page.wait_for_function(
            "() => document.querySelector('.hw-export select').value === 'neurons'"
        )
    for words in ("Allowed: rows are reached, columns reach", "Paths through the layers"):
        assert words in found["masks"]
    assert "later than shown" in found["masks"], "the legend of the map is in its picture"
    assert "one shortest path" in found["masks"]
    assert found["masks"].split("</desc>")[1].count("Text: The animal") == 1
    assert "Neurons that fire most at" in found["neurons"]


@pytest.mark.parametrize("tab", ["map", "lines"])
def test_no_half_of_a_picture_is_empty(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record], tab: str
) -> None:
    with open_page(browser, page_file(tiny_records["decoder"]), f"head=1.2&tab={tab}") as page:
        page.locator(".hw-stage canvas:visible").first.wait_for()
        page.wait_for_timeout(100)
        pictures = [saved(page, "PNG 2×", what)[1] for what in ("tab", "whole")]
    for picture in pictures:
        drawn = (pixels(picture) < 235).any(-1).any(0).nonzero()[0]
        wide = pixels(picture).shape[1]
        assert drawn.max() > 0.9 * wide
        middle = ((drawn > 0.5 * wide) & (drawn < 0.95 * wide)).mean()
        assert middle > 0.25
