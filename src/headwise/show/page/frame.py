"""The frame of every page: its head, what is there before the script runs, and the script at its end."""

from __future__ import annotations

import html
import json
from typing import Any

from headwise.show.page.bundle import script, style

__all__ = ["closing", "data_element", "opening"]

_OPENING = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="headwise">
<link rel="icon" href="data:,">
<title>{title}</title>
<style{nonce}>
{style}</style>
</head>
<body>
<main id="viewer" class="headwise">{body}</main>
<noscript><p>This page draws with a script; it asks nothing of another host.</p></noscript>
"""
_CLOSING = """<script type="module"{nonce}>
{script}</script>
</body>
</html>
"""


def opening(title: str, body: str = "", nonce: str = "", more: str = "") -> str:
    """All up to the data.

    Args:
        title: of the window, as text.
        body: HTML that stands until the script draws.
        nonce: by which a server's policy knows its own style and script.
        more: CSS before the viewer's.
    """
    return _OPENING.format(
        title=html.escape(title), nonce=_known_by(nonce), style=more + style(), body=body
    )


def closing(entry: str, nonce: str = "") -> str:
    """The script of an entry ("file.js"), and the end."""
    return _CLOSING.format(nonce=_known_by(nonce), script=script(entry))


def data_element(id: str, data: Any) -> str:
    """JSON that a script finds by `id`.

    Raises:
        ValueError: a NaN or an infinity, which JSON has not.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c")  # nothing in it ends the script
    return f'<script type="application/json" id="{id}">{safe}</script>\n'


def _known_by(nonce: str) -> str:
    return f' nonce="{nonce}"' if nonce else ""
