"""A page: one HTML file that holds its style, its script and its data, and asks nothing of the network."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from headwise.files import replacing

__all__ = ["page", "save_page"]

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="headwise">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def page(name: str, title: str, data: Any) -> str:
    """The page `name` of `show/web` (its .html and .js, and the style of all pages) with its data.

    Args:
        name: of the files in `web`.
        title: of the window.
        data: what the script reads, as JSON.
    """
    web = files("headwise.show") / "web"
    style, body, script = (
        (web / file).read_text(encoding="utf-8")
        for file in ("page.css", f"{name}.html", f"{name}.js")
    )
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    data_text = text.replace("<", "\\u003c")  # nothing in it ends the script
    return _FRAME.format(
        title=html.escape(title), style=style, body=body, data=data_text, script=script
    )


def save_page(text: str, path: str | Path) -> None:
    """Write a page into a file, whole or not at all.

    Raises:
        OutputError: a path that cannot be written.
    """
    with replacing(Path(path), "the page") as place:
        place.write_text(text, encoding="utf-8", errors="replace")
