"""A page opened without a network in a browser that shows no window, and what it holds then."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def opened(page: Path, place: str, profile: Path) -> str:
    """The page's own HTML after its script has run; errors of the script end the test."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    command = [
        found,
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
