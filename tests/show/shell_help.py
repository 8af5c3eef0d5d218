"""What tests of the page's shell share: the view in the address, the head chosen, and pages of two viewers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from headwise.show.page.bundle import script, style
from headwise.show.page.document import document

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from headwise.show.page.scene import Scene

CHOSEN = '.hw-grid [aria-selected="true"]'


def head_of(page: Page) -> str | None:
    """The head the grid shows as chosen, once the next frame is drawn."""
    drawn(page)
    found = page.locator(CHOSEN)
    return found.get_attribute("data-head") if found.count() else None


def drawn(page: Page) -> None:
    """Two frames: what was asked for is on the screen."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def asked(page: Page) -> dict[str, str]:
    """What the address names."""
    return dict(parse_qsl(urlsplit(page.url).fragment, keep_blank_values=True))


def until_asked(page: Page, name: str, value: str) -> None:
    """Wait until the address names this."""
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.hash.slice(1)).get(name) === value",
        arg=[name, value],
        timeout=30000,
    )


def two_viewers(scene: Scene, path: Path, width: int = 480) -> Path:
    """A page that is not the viewer's own, as a notebook: two narrow viewers of one scene, and a field."""
    data = "".join(
        part for part in document([scene]) if part.startswith('<script type="application')
    )
    roots = "".join(f'<div style="width: {width}px"><div id="{one}"></div></div>' for one in "ab")
    start = "\n".join(
        f'window.{one} = await view(document.getElementById("{one}"), fileSource(document), {{ address: false }});'
        for one in "ab"
    )
    page_script, own, _ = script("file.js").partition("view(document.getElementById")
    assert own
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,"><title>two</title>'
        f"<style>{style()}</style><h1>Two</h1><input id=own aria-label=own>{roots}{data}"
        f'<script type="module">{page_script}\n{start}</script></html>',
        encoding="utf-8",
    )
    return path


def with_index(path: Path, change: dict[str, object], out: Path) -> Path:
    """A copy of a page whose first scene has other values in its index."""
    text = path.read_text("utf-8")
    before, _, rest = text.partition('id="index">')
    body, _, after = rest.partition("</script>")
    index = json.loads(body)
    index["scenes"][0].update(change)
    safe = json.dumps(index).replace("<", "\\u003c")
    out.write_text(f'{before}id="index">{safe}</script>{after}', encoding="utf-8")
    return out
