"""Pages opened in a browser that shows no window: what it says, asks of the network, and looks like."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
LOCAL = ("file:", "data:", "blob:", "about:")
SEVERE = ("serious", "critical")


def chromium() -> str:
    """The browser; a machine without one skips the test."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    return found


@contextmanager
def open_page(
    browser: Browser, place: Path | str, hash: str = "", expect: Sequence[str] = (), **context: Any
) -> Iterator[Page]:
    """A page opened from a file without a network, or from a server; what it does wrong fails the test.

    Wrong are: errors and warnings in the console, exceptions nobody caught, and requests to anything but the
    file or server it came from.

    Args:
        browser: of the fixture.
        place: a file, or an address of a server.
        hash: of the address: what is to be shown, "head=1.2&tab=map".
        expect: patterns of lines for the console that are right here.
        context: of `Browser.new_context`: color_scheme="dark", viewport={...}, ...
    """
    here = place.as_uri() if isinstance(place, Path) else place
    given = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    opened_in = browser.new_context(offline=isinstance(place, Path), **{**given, **context})
    page = opened_in.new_page()
    page.set_default_timeout(15000)
    told = _watch(page, here)
    try:
        page.goto(f"{here}#{hash}" if hash else here)
        _judge(told, expect)  # a script that does not start is known at once
        yield page
        page.evaluate("() => new Promise((done) => setTimeout(done, 50))")  # what comes late
    except BaseException as error:
        for line in told:
            error.add_note(f"the browser: {line}")
        raise
    finally:
        opened_in.close()
    _judge(told, expect)


def _judge(told: Sequence[str], expect: Sequence[str]) -> None:
    wrong = [line for line in told if not any(re.search(pattern, line) for pattern in expect)]
    assert not wrong, "\n".join(wrong)


def _watch(page: Page, here: str) -> list[str]:
    """The list into which all that the page does wrong will be written."""
    told: list[str] = []
    own = urlsplit(here)

    def requested(request: Any) -> None:
        asked = urlsplit(request.url)
        if request.url.startswith(LOCAL) or (asked.scheme, asked.netloc) == (
            own.scheme,
            own.netloc,
        ):
            return
        told.append(f"request to {request.url}")

    page.on("request", requested)
    page.on("pageerror", lambda error: told.append(f"exception: {error}"))
    page.on(
        "console",
        lambda line: (
            told.append(f"console {line.type}: {line.text}")
            if line.type in ("error", "warning", "assert") and _OWN not in line.text
            else None
        ),
    )
    return told


_OWN = "willReadFrequently"
"""Chromium warns so where a test reads a canvas back, which the viewer never does."""


@cache
def _axe() -> str:
    package = pytest.importorskip(
        "axe_playwright_python", reason="axe-playwright-python is missing"
    )
    return (files(package) / "axe.min.js").read_text(encoding="utf-8")


def axe(page: Page, within: str = "html") -> list[str]:
    """What axe-core finds serious or critical for people who use assistive technology, a line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())
    found = page.evaluate("(within) => axe.run(within, { resultTypes: ['violations'] })", within)
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {node['target']} {node['html'][:120]} "
        + " ".join(node["failureSummary"].split())[:200]
        for one in found["violations"]
        if one["impact"] in SEVERE
        for node in one["nodes"]
    ]


def opened(page: Path, place: str, profile: Path) -> str:
    """The page's own HTML after its script has run; errors of the script end the test."""
    command = [
        chromium(),
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", "--dump-dom"),
        f"{page.as_uri()}#{place}",
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    told = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    assert not told, told
    assert done.returncode == 0
    return done.stdout.decode()


def text_of(dom: str, id: str) -> str:
    """The text of one element, without its tags."""
    found = re.search(rf'<(\w+)[^>]*\bid="{id}"[^>]*>(.*?)</\1>', dom, re.DOTALL)
    assert found is not None, id
    return html.unescape(re.sub(r"<[^>]+>", " ", found[2])).strip()
