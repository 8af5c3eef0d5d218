"""The tab of masks: what it draws and says is what reach and flow say, and a leak is pointed at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

import headwise as hw
from browser_help import axe, open_page
from bytes_help import byte_tokenizer
from headwise.show.page.document import save_document
from headwise.show.page.fires import told_fires
from headwise.show.page.flow import told_flow, told_reach
from headwise.show.page.scene import Scene
from tiny_help import TARGET, encoder_decoder
from tiny_help import TEXT as SOURCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXT = "windows <b>leak"
RED = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let red = 0;
  for (let i = 0; i < data.length; i += 4) red += data[i] > 180 && data[i + 1] < 40 && data[i + 2] < 90;
  return red;
}"""


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a model of windows whose third block takes a mean over time."""
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(
        vocab_size=256, num_layers=4, num_heads=2, d_model=32, d_ff=48, positions="rope", window=4
    )
    decoder = hw.nn.Decoder(config)
    decoder.blocks[2].ffn.register_forward_hook(
        lambda module, given, out: out + out.mean(1, keepdim=True)
    )
    model = hw.load(decoder, tokenizer=byte_tokenizer())
    record = hw.look(model, TEXT)
    told = {"flow": told_flow(model, record), "fires": told_fires(model, record)}
    path = tmp_path_factory.mktemp("flow") / "leak.html"
    save_document([Scene(record, told=told)], path)
    return path


def test_it_says_what_the_masks_allow_and_what_flows(browser: Browser, leaking: Path) -> None:
    with open_page(browser, leaking, "tab=masks&layer=2&query=9&key=1") as page:
        says = page.locator(".hw-reach-says")
        says.get_by_text("from layer 2 on; after 2 layers not yet").wait_for()
        assert "moves nothing here after 2 layers" in says.inner_text()
        page.locator(".hw-reach-layer").fill("3")
        says.get_by_text("moves the stream here by").wait_for()
        assert "not yet" not in says.inner_text()
        assert page.locator(".hw-reach-now").inner_text().startswith("3 of 4 layers")
        assert "window(4)" in page.locator(".hw-reach-masks").inner_text()


def test_a_leak_is_listed_and_led_to(browser: Browser, leaking: Path) -> None:
    with open_page(browser, leaking, "tab=masks") as page:
        leaks = page.locator(".hw-flow-leaks")
        assert "from layer 2 on" in leaks.inner_text()
        leaks.get_by_role("button").first.click()
        page.wait_for_function("() => location.hash.includes('layer=3')")
        says = page.locator(".hw-reach-says").inner_text()
        assert "never reaches" in says or "not yet" in says
        assert "moves the stream here by" in says


def test_pointing_and_keys_move(browser: Browser, leaking: Path) -> None:
    with open_page(browser, leaking, "tab=masks") as page:
        canvas = page.locator('canvas[data-map="reach"]')
        box = canvas.bounding_box()
        assert box is not None
        canvas.click(position={"x": box["width"] / 3, "y": box["height"] / 2})
        page.wait_for_function("() => /query=\\d+/.test(location.hash)")
        before = page.url
        canvas.press("ArrowDown")
        page.wait_for_function("(before) => location.href !== before", arg=before)
        canvas.press("-")
        page.locator(".hw-reach-now").get_by_text("3 of 4").wait_for()
        assert not axe(page, ".hw-flow")


@pytest.fixture(scope="module")
def leaking_across(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of an encoder-decoder whose masks, as it is told, close one token of the encoder to all."""
    model = encoder_decoder()
    record = hw.look(model, SOURCE, target=TARGET)
    reach, flow = told_reach(record), told_flow(model, record)
    length = reach["source_length"]
    reach["across"]["first"] = [[1, length - 3, -1, 1, 1, 2] for _ in reach["across"]["first"]]
    (cross,) = (one for one in flow["flows"] if one["stream"] == "cross")
    leak = [cross["layers"][0], 2, length - 3, 0.5]
    cross.update(clean=False, leaks=[leak], num_leaks=1, says="it flows")
    path = tmp_path_factory.mktemp("across") / "leak.html"
    save_document([Scene(record, told={"flow": flow, "reach": reach})], path)
    return path


def test_a_leak_from_the_encoder_is_outlined_and_led_to(
    browser: Browser, leaking_across: Path
) -> None:
    with open_page(browser, leaking_across, "tab=masks&head=decoder.0.1") as page:
        maps = {
            name: page.locator(f'canvas[data-map="{name}"]')
            for name in ("reach", "flow", "across", "across-flow")
        }
        maps["across-flow"].wait_for()
        red = {name: one.evaluate(RED) > 50 for name, one in maps.items()}
        assert red == {"reach": False, "flow": False, "across": True, "across-flow": True}
        page.locator(".hw-flow-leaks").get_by_role("button").click()
        says = page.locator(".hw-reach-says")
        says.get_by_text("moves the stream here by").wait_for()
        assert "never reaches" in says.inner_text()
        maps["across-flow"].press("ArrowLeft")
        says.get_by_text("from layer 0 on").wait_for()


def test_layers_that_open_nothing_new_are_drawn_as_one(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(
        vocab_size=256, num_layers=9, num_heads=2, d_model=32, d_ff=48, positions="rope"
    )
    model = hw.load(hw.nn.Decoder(config), tokenizer=byte_tokenizer())
    record = hw.look(model, TEXT)
    save_document([Scene(record)], tmp_path / "plain.html")
    with open_page(browser, tmp_path / "plain.html", "tab=masks&query=9&key=1") as page:
        paths = page.locator('canvas[data-map="paths"]')
        paths.wait_for()
        assert paths.evaluate("(one) => one.offsetHeight") < 200
        assert "one shortest path" in page.locator(".hw-reach-maps").inner_text()
        causal = page.locator(".hw-reach-causal").inner_text()
        assert causal.startswith("Every layer has the same causal mask")


def test_masks_of_windows_are_not_called_causal(browser: Browser, leaking: Path) -> None:
    with open_page(browser, leaking, "tab=masks") as page:
        page.locator(".hw-reach-masks li").first.wait_for()
        assert page.locator(".hw-reach-causal").count() == 0
