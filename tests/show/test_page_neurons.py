"""The tab of neurons: its numbers are those of fires and contributions, and a click in its map pins a token."""

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
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXT = "cats sat"


@pytest.fixture(scope="module")
def model() -> hw.Model:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(vocab_size=256, num_layers=3, num_heads=2, d_model=32, d_ff=48)
    return hw.load(hw.nn.Decoder(config), tokenizer=byte_tokenizer())


@pytest.fixture(scope="module")
def page_of(model: hw.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    record = hw.look(model, TEXT)
    path = tmp_path_factory.mktemp("neurons") / "neurons.html"
    save_document([Scene(record, told={"fires": told_fires(model, record)})], path)
    return path


def test_the_table_is_what_fires(browser: Browser, page_of: Path, model: hw.Model) -> None:
    wanted = hw.fires(model, TEXT, top=8).at(5, top=8)
    with open_page(browser, page_of, "tab=neurons&query=5") as page:
        page.locator(".hw-neurons-table tbody tr").first.wait_for()
        names = page.locator(".hw-neurons-table tbody th").all_inner_texts()
        assert names == [str(fire.neuron) for fire in wanted]
        numbers = page.locator(".hw-neurons-table tbody td:nth-child(2)").all_inner_texts()
        assert [float(x) for x in numbers] == pytest.approx(
            [fire.activation for fire in wanted], rel=0.01, abs=1e-3
        )
        assert "(5)" in page.locator(".hw-neurons-says").inner_text()
        assert not axe(page, ".hw-neurons")


def test_a_click_in_the_map_pins_a_token(browser: Browser, page_of: Path) -> None:
    with open_page(browser, page_of, "tab=neurons&query=5") as page:
        canvas = page.locator(".hw-neurons-heat canvas")
        canvas.wait_for()
        canvas.click(position={"x": 30, "y": 60})
        page.wait_for_function("() => /query=0/.test(location.hash)")
        assert "(0)" in page.locator(".hw-neurons-says").inner_text()
        page.get_by_role("button", name="attention", exact=True).click()
        pressed = page.locator('.hw-neurons-bar [aria-pressed="true"]')
        assert pressed.inner_text() == "attention"


def test_a_page_without_them_says_how_to_have_them(
    browser: Browser, model: hw.Model, tmp_path: Path
) -> None:
    save_document([Scene(hw.look(model, TEXT))], tmp_path / "plain.html")
    with open_page(browser, tmp_path / "plain.html", "tab=neurons") as page:
        page.get_by_text("--ffn adds them").wait_for()
