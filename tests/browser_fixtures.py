"""What tests in a browser are given: the browser, pages of records in files, and a place for screenshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser_help import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record
    from headwise.show.page.scene import Scene

SHOTS = "HEADWISE_SHOTS"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole session.

    Playwright keeps an event loop running in the main thread: a test that needs one of its own (`asyncio.run`)
    takes a thread or a process for it.
    """
    path = chromium()
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    with api.sync_playwright() as playwright:
        # of a container's small /dev/shm nothing is used
        found = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture
def shot(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    """shot(page, name) keeps a screenshot of what is seen: in the folder HEADWISE_SHOTS, or with the test."""
    folder = Path(os.environ.get(SHOTS) or tmp_path / "shots")

    def take(page: Page, name: str, **given: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{request.node.originalname}-{name}.png"
        page.screenshot(path=path, **given)
        return path

    return take


@pytest.fixture
def page_file(tmp_path: Path) -> Callable[..., Path]:
    """page_file(record, ..., start={...}, least=.01) writes these records (or scenes) as a page into a file."""
    from headwise.show.page.document import save_document
    from headwise.show.page.scene import Scene

    def write(
        *shown: Record | Scene,
        name: str = "page.html",
        start: dict[str, Any] | None = None,
        **scene: Any,
    ) -> Path:
        scenes = [one if isinstance(one, Scene) else Scene(one, **scene) for one in shown]
        save_document(scenes, tmp_path / name, start)
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def tiny_records() -> dict[str, Record]:
    """Records of small random models: "decoder" (grouped-query), "encoder", "encoder-decoder", "mixed" scripts."""
    import tiny_help

    return tiny_help.records()


@pytest.fixture(scope="session")
def tiny_scenes() -> dict[str, Scene]:
    """The same as scenes that hold the reach of masks and the neurons that fire too."""
    import tiny_help

    return tiny_help.scenes()
