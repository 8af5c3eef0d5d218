"""Roles in the page: a head without one says what it is best at, and no score of nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import headwise as hw
from browser_help import open_page
from headwise.show.page.scene import Scene
from tiny_help import TEXT, decoder

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_head_without_a_role_says_what_it_is_best_at(
    browser: Browser, page_file: Callable[..., Path], shot: Callable[..., Path]
) -> None:
    model = decoder()
    made = torch.Generator().manual_seed(0)
    texts = [torch.randint(3, 300, (40,), generator=made) for _ in range(8)]
    roles = hw.roles(hw.profile(model, texts))
    head = next(str(id) for id in roles.heads if roles.main(id) is None)
    best = roles.of(head)[0]
    said = f"best {best.probe.replace('_', ' ')} {best.score:.3f}, below its bar"
    page = page_file(Scene(hw.look(model, TEXT), tables=[roles]))
    with open_page(browser, page, f"head={head}&colour=role") as page:
        cell = page.locator(f'[data-head="{head}"]').first
        page.get_by_text("No role", exact=True).wait_for()
        assert f"no role: {said}" in page.locator(".hw-left").inner_text() + str(
            cell.get_attribute("aria-label")
        )
        assert said.replace("best ", "best: ") in page.locator(".hw-right").inner_text()
        assert ".000\n" not in page.locator(".hw-chosen").last.inner_text()
        shot(page, "none")
